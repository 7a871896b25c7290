#include "program/sweep/results.h"

#include <cmath>
#include <nlohmann/json.hpp>
#include <numeric>

#include "core/files/atomic_file.h"
#include "core/text/short_lines.h"

namespace mxtape::referee {
namespace {

// The fields of a type, all of them in the order of its declaration: a binding of fewer does not compile.
#define MXT_FIELDS(Type, ...)                \
  template <class Visit>                     \
  void fields(Type& of_value, Visit visit) { \
    auto& [__VA_ARGS__] = of_value;          \
    visit(#__VA_ARGS__, __VA_ARGS__);        \
  }
MXT_FIELDS(Estimate, value, interval95, why)
MXT_FIELDS(Arm, name, family, differences, slots, bits, chosen, recipe)
MXT_FIELDS(ModelSize, name, parameters, tokens_per_step)
MXT_FIELDS(Point, name, size, parameters, tokens_per_parameter, tokens, steps, decay_steps)
MXT_FIELDS(Spike, step, z, unlearned)
MXT_FIELDS(Sample, step, loss)
MXT_FIELDS(Telemetry, slots, relative_error, alignment)
MXT_FIELDS(Run, point, arm, seed, stage, folder, state, message, code, loss, learning_rate, curve, spikes,
           telemetry)
MXT_FIELDS(PairedGap, pairs, mean, standard_error, interval95, interval90, p, verdict)
MXT_FIELDS(Gap, point, arm, stage, gap, holm, verdict, reason)
MXT_FIELDS(Switch, arm, step, steps, jump)
MXT_FIELDS(Reached, loss, point, arm, stage, runs, never, mean, ratio)
MXT_FIELDS(ContrastResult, contrast, point, stage, gap, holm, reason)
MXT_FIELDS(Efficiency, arm, point, stage, ratio, why)
MXT_FIELDS(LawArm, arm, parameters, tokens, outside)
MXT_FIELDS(Residual, arm, point, measured, fitted)
MXT_FIELDS(Law, fitted, holds, why, A, alpha, B, beta, gamma, E, limit, worst, draws, arms, residuals)
MXT_FIELDS(BreakEven, arm, speed_up, from, why)
MXT_FIELDS(Correlation, measure, point, arms, rank)
MXT_FIELDS(Tuned, arm, value, loss, runs, best, edge)
MXT_FIELDS(StepTime, stage, size, arm, ms, ratio, runs)
MXT_FIELDS(RunTime, ms, peak_mib, seconds, threads)
MXT_FIELDS(Times, device, cores, threads, steps, runs, seconds_to, seconds_of_runs)
MXT_FIELDS(Family, name, arms)
MXT_FIELDS(Contrast, text, arms, weights)
MXT_FIELDS(Question, name, file, base, baseline, tolerance, steps_to, select, confirm, tune, best, lengths,
           decay, learning_rate_power, tuned_key, tuned_values, families, contrasts)
MXT_FIELDS(Results, asked, baseline, arms, sizes, points, version, commit, arithmetic, data_file, data_hash,
           floor, complete, tokens_trained, tokens_apart, tunes, runs, switches, gaps, resolvable_gap,
           steps_to, contrast_results, efficiencies, law, break_even, correlations, not_run, times)
#undef MXT_FIELDS

/// The texts of an enumeration, by its values.
constexpr std::array<std::string_view, 2> names_of(Stage) { return {"select", "confirm"}; }
constexpr auto names_of(Verdict) { return verdict_names; }

template <class T>
concept Named = requires(T value) {
  names_of(value);
};
template <class T>
concept Listed = requires(T value) {
  value.emplace_back();
};
template <class T>
concept Structured =
    std::is_class_v<T> && std::is_aggregate_v<T> && !std::is_same_v<T, std::array<double, 2>>;

/// Cuts the next name off "name, next, last".
std::string next_name(std::string_view& names) {
  const auto comma = names.find(',');
  const std::string name(names.substr(0, comma));
  names.remove_prefix(comma == names.npos ? names.size() : names.find_first_not_of(' ', comma + 1));
  return name;
}

template <class T>
Json written(T& value) {
  Json json;
  if constexpr (Structured<T>) {
    fields(value, [&](std::string_view names, auto&... all) {
      const auto add = [&](const std::string& name, const Json& field) {
        json[name] = field;
        if (field.is_null()) json[name + "_reason"] = "there is none";
      };
      (add(next_name(names), written(all)), ...);
    });
  } else if constexpr (Listed<T>) {
    json = Json::array();
    for (auto& one : value) json.push_back(written(one));
  } else if constexpr (Named<T>) {
    json = names_of(value)[std::size_t(value)];
  } else if constexpr (is_optional<T>) {
    if (value) json = written(*value);
  } else if constexpr (std::is_same_v<T, double>) {
    if (std::isfinite(value)) json = value;
  } else if constexpr (std::is_same_v<T, std::array<double, 2>>) {
    if (std::isfinite(value[0])) json = value;  // else both ends are infinite
  } else {
    json = value;
  }
  return json;
}

/// Throws nlohmann's exceptions, or Error, for what `written` would not give.
struct Reader {
  const Json& whole;
  std::string& at;  ///< "/runs/3/arm": what is being read, or could not be

  template <class T>
  void read(const Json& json, const std::string& place, T& value) {
    at = place;
    if constexpr (Structured<T>) {
      fields(value, [&](std::string_view names, auto&... all) {
        const auto field = [&](auto name, auto& one) { read(json.at(name), place + "/" + name, one); };
        (field(next_name(names), all), ...);
      });
    } else if constexpr (Listed<T>) {
      for (std::size_t i = 0; i < json.get_ref<const Json::array_t&>().size(); ++i)
        read(json[i], fmt::format("{}/{}", place, i), value.emplace_back());
    } else if constexpr (Named<T>) {
      const auto names = names_of(value);
      const auto found = std::ranges::find(names, json.get<std::string>());
      require(found != names.end(), ExitCode::data, "{} is known by no such name", json.dump());
      value = T(found - names.begin());
    } else if constexpr (is_optional<T>) {
      if (!json.is_null()) read(json, place, value.emplace());
    } else if constexpr (std::is_same_v<T, std::array<double, 2>>) {
      value = json.is_null() ? T{-INFINITY, INFINITY} : json.get<T>();
    } else if constexpr (std::is_same_v<T, double>) {
      value = json.is_null() ? INFINITY : json.get<T>();
    } else {
      if constexpr (std::is_integral_v<T> && !std::is_same_v<T, bool>)  // get_to() would make 0 of 0.5
        require(json.is_number_unsigned() || (std::is_signed_v<T> && json.is_number_integer()),
                ExitCode::data, "{} is no integer{}", json.dump(), std::is_signed_v<T> ? "" : " >= 0");
      json.get_to(value);
      if constexpr (std::is_same_v<T, std::size_t>) require_there(value);
    }
  }

  /// Of an index; a seed is of the same type.
  void require_there(std::size_t index) const {
    constexpr const char* lists[][2] = {{"/arm", "/arms"},      {"/arms", "/arms"},
                                        {"/baseline", "/arms"}, {"/point", "/points"},
                                        {"/size", "/sizes"},    {"/contrast", "/asked/contrasts"}};
    const std::string name = at.substr(0, at.find_last_not_of("0123456789/") + 1);
    for (const auto& [end, list] : lists) {
      if (!name.ends_with(end)) continue;
      const std::size_t count = whole.at(Json::json_pointer(list)).size();
      require(index < count, ExitCode::data, "{}; want an index below {}", index, count);
    }
  }
};

}  // namespace

Value value_of(const Results& results) {
  Results copy = results;
  return Value(written(copy));
}

Results read_results(const std::filesystem::path& file) {
  const std::string text = read_whole_text(file);
  Results results;
  std::string at = "as JSON";
  try {
    const Json whole = Json::parse(text);
    Reader{whole, at}.read(whole, "", results);
    for (const auto& [list, of] : {std::pair("/times/runs", "/runs"), {"/times/seconds_to", "/steps_to"}})
      require(whole.at(Json::json_pointer(at = list)).size() == whole.at(Json::json_pointer(of)).size(),
              ExitCode::data, "want one for each of {}", of);
    at = "/points";
    require(!results.points.empty(), ExitCode::data, "there are none");
  } catch (const std::exception& e) {
    fail(ExitCode::data, "{}: {}: {}; want the results.json of a sweep", file.string(), at, json_reason(e));
  }
  return results;
}

Estimate paired_ratio(std::span<const double> logarithms) {
  const PairedGap gap = paired_gap(logarithms, 1);
  Estimate ratio{.value = std::exp(gap.mean)};
  if (gap.pairs > 1)
    ratio.interval95 = {std::exp(gap.interval95[0]), std::exp(gap.interval95[1])};
  else
    ratio.why = "one seed has no spread";
  return ratio;
}

const Run* Results::run(std::size_t point, std::size_t arm, Stage stage, std::uint64_t seed) const {
  return first_of(runs, [&](const Run& run) {
    return run.point == point && run.arm == arm && run.stage == stage && run.seed == seed;
  });
}

const Gap* Results::gap(std::size_t point, std::size_t arm, Stage stage) const {
  return first_of(gaps, [&](const Gap& g) { return g.point == point && g.arm == arm && g.stage == stage; });
}

const StepTime* Results::step_time(std::size_t size, std::size_t arm) const {
  return first_of(times.steps, [&](const StepTime& time) {
    return time.size == size && time.arm == arm && time.stage == judged();
  });
}

std::vector<std::size_t> Results::sorted(std::size_t point) const {
  std::vector<std::size_t> order(arms.size());
  std::iota(order.begin(), order.end(), std::size_t(0));
  std::ranges::stable_sort(order, {}, [&](std::size_t arm) {
    const Gap* found = gap(point, arm, judged());
    return arm == baseline ? -INFINITY : found ? found->gap.mean : INFINITY;
  });
  return order;
}

std::vector<std::optional<double>> Results::losses(std::size_t point, std::size_t arm, Stage stage) const {
  std::vector<std::optional<double>> found;
  for (const std::uint64_t seed : seeds(stage)) {
    const Run* of_seed = run(point, arm, stage, seed);
    found.push_back(of_seed ? of_seed->loss : std::nullopt);
  }
  return found;
}

bool Results::blew_up(std::size_t point, std::size_t arm, Stage stage) const {
  return std::ranges::any_of(runs, [&](const Run& run) {
    return run.point == point && run.arm == arm && run.stage == stage &&
           std::ranges::any_of(run.spikes, [](const Spike& spike) { return spike.unlearned.has_value(); });
  });
}

std::string Results::why_open(std::size_t point, std::size_t arm, Stage stage, std::size_t finished,
                              const char* of, std::size_t beside) const {
  if (!is_planned(arm, stage)) return "not chosen on the first seeds";
  // Whatever stands beside a run that lost what it had learned looks better.
  if (blew_up(point, beside, stage))
    return fmt::format("the loss of {} blew up", beside == baseline ? "the baseline" : arms[beside].name);
  // Whoever looks before all runs are there, and stops where he likes what he sees, fools himself.
  const std::size_t all = seeds(stage).size(), missing = all - finished;
  if (missing > 0) return fmt::format("{} of {} {} missing or failed", missing, all, of);
  return all == 1 ? "one seed says nothing about others" : "";
}

void Results::add_gaps() {
  for (const Stage stage : {Stage::select, Stage::confirm})
    for (std::size_t point = 0; point < points.size(); ++point) {
      std::vector<double> deviations;
      for (std::size_t arm = 0; arm < arms.size(); ++arm) {
        const auto all = losses(point, arm, stage), of_baseline = losses(point, baseline, stage);
        std::vector<double> differences;
        for (std::size_t i = 0; i < all.size(); ++i)
          if (all[i] && of_baseline[i]) differences.push_back(*all[i] - *of_baseline[i]);
        if (arm == baseline || all.empty() || !run(point, arm, stage, seeds(stage)[0])) continue;
        Gap gap{point, arm, stage, paired_gap(differences, asked.tolerance)};
        gap.reason = why_open(point, arm, stage, differences.size(), "pairs", baseline);
        gap.holm = gap.gap.p;
        if (gap.reason.empty()) gap.verdict = gap.gap.verdict;
        if (gap.gap.pairs > 1) deviations.push_back(gap.gap.standard_error * std::sqrt(gap.gap.pairs));
        gaps.push_back(std::move(gap));
      }
      if (stage == judged() && !deviations.empty())
        resolvable_gap = mxtape::resolvable_gap(deviations, int(seeds(stage).size()));
    }
}

}  // namespace mxtape::referee
