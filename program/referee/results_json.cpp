#include "program/referee/results_json.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "core/files/atomic_file.h"

namespace mxtape::referee {
namespace {

// The fields of a type, all of them in the order of results.h: a binding of fewer does not compile. A Writer
// and a Reader are shown them in turn, after their names in one text.
#define MXT_FIELDS(Type, ...)                     \
  template <class Visitor>                        \
  void fields(Visitor& visitor, Type& of_value) { \
    auto& [__VA_ARGS__] = of_value;               \
    visitor(#__VA_ARGS__, __VA_ARGS__);           \
  }
MXT_FIELDS(Estimate, value, interval95, why)
MXT_FIELDS(Arm, name, family, differences, slots, bits, chosen)
MXT_FIELDS(Family, name, arms)
MXT_FIELDS(Size, name, parameters, all_parameters, tokens_per_step)
MXT_FIELDS(Point, name, size, parameters, tokens_per_parameter, tokens, steps, decay_steps)
MXT_FIELDS(Spike, step, z, unlearned)
MXT_FIELDS(Sample, step, loss)
MXT_FIELDS(Telemetry, slots, relative_error, alignment)
MXT_FIELDS(Run, point, arm, seed, stage, state, message, loss, learning_rate, curve, spikes, telemetry)
MXT_FIELDS(PairedGap, pairs, mean, standard_error, interval95, interval90, p, verdict)
MXT_FIELDS(Gap, point, arm, stage, gap, holm, verdict, reason)
MXT_FIELDS(Contrast, text, arms, weights)
MXT_FIELDS(ContrastResult, contrast, point, stage, gap, holm, reason)
MXT_FIELDS(Efficiency, arm, point, along, stage, ratio, why)
MXT_FIELDS(LawArm, arm, parameters, tokens)
MXT_FIELDS(Residual, arm, point, measured, fitted)
MXT_FIELDS(Law, fitted, holds, why, A, alpha, B, beta, gamma, E, floor_known, limit, worst, draws, arms,
           residuals)
MXT_FIELDS(BreakEven, arm, speed_up, from, why)
MXT_FIELDS(Correlation, measure, point, arms, rank)
MXT_FIELDS(Tuned, arm, value, loss, runs, best, edge)
MXT_FIELDS(StepTime, size, arm, ms, baseline_ms, steps)
MXT_FIELDS(Times, device, cores, steps, seconds_of_runs)
MXT_FIELDS(Results, name, file, base, baseline, baseline_arm, tolerance, select, confirm, tune, best, decay,
           rate_power, tuned_key, arms, families, contrasts, sizes, points, version, commit, arithmetic,
           data_file, data_hash, floor, complete, tokens_trained, tokens_apart, tunes, runs, gaps,
           contrast_results, efficiencies, law, break_even, correlations, not_run, times)
#undef MXT_FIELDS

/// Why a field may be null.
std::string_view reason_of(std::string_view key) {
  constexpr std::pair<std::string_view, std::string_view> reasons[] = {
      {"unlearned", "less than half of what was learned"},
      {"loss", "the run is not finished"},
      {"telemetry", "nothing is rounded, or the run is not finished"},
      {"alignment", "it was not measured"},
      {"floor", "the data does not carry its entropy"},
      {"standard_error", "one pair has no spread"},
      {"interval90", "one pair has no spread"}};
  for (const auto& [name, reason] : reasons)
    if (name == key) return reason;
  return "there is none: see why, or the number of pairs";
}

/// The texts of an enumeration, by its values.
constexpr std::array<std::string_view, 2> names_of(Stage) { return {"select", "confirm"}; }
constexpr std::array<std::string_view, 2> names_of(Efficiency::Along) { return {"tokens", "parameters"}; }
std::array<std::string_view, 4> names_of(Verdict) {
  return {name_of(Verdict::within), name_of(Verdict::worse), name_of(Verdict::better),
          name_of(Verdict::not_resolved)};
}

template <class T>
concept Named = requires(T value) {
  names_of(value);
};
template <class T>
concept Interval = std::is_same_v<T, std::array<double, 2>>;
template <class T>
concept Plain = std::is_arithmetic_v<T> || std::is_same_v<T, std::string> || Interval<T>;
template <class T>
concept Listed = requires(T value) {
  value.emplace_back();
};

/// Cuts the next name off "name, next, last".
std::string next_name(std::string_view& names) {
  const auto comma = names.find(',');
  const std::string name(names.substr(0, comma));
  names.remove_prefix(comma == names.npos ? names.size() : names.find_first_not_of(' ', comma + 1));
  return name;
}

struct Writer {
  Value made = object();

  template <class... Fields>
  void operator()(std::string_view names, Fields&... all) {
    (add(next_name(names), all), ...);
  }
  template <class T>
  void add(const std::string& name, T& field) {
    Value value = written(field);
    if (value.json->is_null()) value = Value(nullptr, std::string(reason_of(name)));
    put(made, name, value);
  }
  template <class T>
  static Value written(T& value) {
    if constexpr (Interval<T>)
      return std::isfinite(value[0]) ? Value(value) : Value();
    else if constexpr (Plain<T>)
      return Value(value);
    else if constexpr (Named<T>)
      return Value(names_of(value)[std::size_t(value)]);
    else if constexpr (is_optional<T>)
      return value ? written(*value) : Value();
    else if constexpr (Listed<T>) {
      std::vector<Value> all;
      for (auto& one : value) all.push_back(written(one));
      return Value(all);
    } else {
      Writer inner;
      fields(inner, value);
      return inner.made;
    }
  }
};

struct Reader {
  const Json& json;
  std::string place;

  template <class... Fields>
  void operator()(std::string_view names, Fields&... all) {
    (find(next_name(names), all), ...);
  }
  template <class T>
  void find(const std::string& name, T& field) {
    const std::string at = place.empty() ? name : place + "." + name;
    require(json.is_object() && json.contains(name), ExitCode::data, "no '{}'", at);
    read(json.at(name), field, at);
  }
  template <class T>
  static void read(const Json& from, T& value, const std::string& at) {
    constexpr double infinity = std::numeric_limits<double>::infinity();
    if constexpr (Interval<T>)
      value = from.is_null() ? T{-infinity, infinity} : from.get<T>();
    else if constexpr (std::is_floating_point_v<T>)
      value = from.is_null() ? infinity : from.get<T>();
    else if constexpr (Plain<T>)
      value = from.get<T>();
    else if constexpr (Named<T>) {
      const auto names = names_of(value);
      const auto found = std::find(names.begin(), names.end(), from.get<std::string>());
      require(found != names.end(), ExitCode::data, "{} is {}", at, from.dump());
      value = T(found - names.begin());
    } else if constexpr (is_optional<T>) {
      value.reset();
      if (!from.is_null()) read(from, value.emplace(), at);
    } else if constexpr (Listed<T>) {
      require(from.is_array(), ExitCode::data, "{} is no list", at);
      for (std::size_t i = 0; i < from.size(); ++i)
        read(from[i], value.emplace_back(), fmt::format("{}[{}]", at, i));
    } else {
      Reader inner{from, at};
      fields(inner, value);
    }
  }
};

}  // namespace

Value value_of(const Results& results) {
  Results copy = results;
  return Writer::written(copy);
}

Results read_results(const std::filesystem::path& file) {
  constexpr const char* wanted = "want the results.json of a sweep with [points]";
  Results results;
  const std::string text = read_whole_text(file);
  try {
    Reader::read(Json::parse(text), results, "");
  } catch (const nlohmann::json::exception& e) {
    fail(ExitCode::data, "{}: {}; {}", file.string(), e.what(), wanted);
  } catch (const Error& e) {
    fail(ExitCode::data, "{}: {}; {}", file.string(), e.what(), wanted);
  }
  return results;
}

}  // namespace mxtape::referee
