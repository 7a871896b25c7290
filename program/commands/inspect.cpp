#include <cstdio>
#include <map>
#include <set>
#include <tuple>

#include "program/plan/run_plan.h"
#include "program/records/oscillation.h"
#include "program/records/paired_gap.h"
#include "program/records/run_name.h"
#include "program/records/spectrum.h"
#include "program/records/telemetry.h"
#include "program/show/command.h"
#include "program/show/progress.h"

namespace mxtape {
namespace {

struct Arguments {
  std::string run, device, data, by = "slot";
  std::vector<std::string> formats{"mxfp8", "mxfp6_e2m3", "mxfp4", "mxfp4 block=16", "nvfp4"};
  bool spectra = false;
  std::int64_t top = 0;
};

/// The operands of a trained model's linear layers in one training step that is thrown away: weights as the
/// checkpoint has them, activations and gradients of the step's batch.
struct Inspection {
  std::string checkpoint, data;
  std::int64_t step;
  Measurements found{};
  std::vector<Oscillation::Found> weights{};                          ///< over the step's update
  std::map<std::pair<std::string, std::string>, Spectrum> spectra{};  ///< by layer and tensor: "x", "w", "dy"
};

Inspection inspect(const Arguments& a) {
  Measure::Options measuring{.others = {}, .sample = 1 << 16};
  for (const auto& text : a.formats) measuring.others.push_back(parse_quantizer(text));
  Beginning begin;
  begin.file = checkpoint_of(a.run);
  begin.checkpoint.emplace(*begin.file);
  RunPlan plan(begin.checkpoint->header().recipe);
  plan.begin = std::move(begin);
  compute_again(plan, a.device, a.data);
  Inspection result{plan.begin.file->string(), plan.recipe.data.file, plan.begin.checkpoint->header().step};
  plan_through(plan, Station::memory);
  if (a.spectra)
    measuring.look = [&](const std::string& layer, const std::string& slot, const std::vector<float>& x,
                         std::int64_t rows, std::int64_t cols) {
      const std::pair place(layer, slot.substr(slot.find('.') + 1));  // "dy" of "dgrad.dy"
      if (!result.spectra.contains(place)) result.spectra[place] = spectrum_of(x.data(), rows, cols);
    };
  Measure measure(measuring);
  ObservingBackend backend(*plan.device, {&measure});
  const auto trainer = open_trainer(plan, backend);
  Oscillation oscillation(backend, trainer->model().linear_weights(), measuring.sample, plan.recipe.seed);
  oscillation.begin();
  start(measure, backend, trainer->model());
  trainer->step();
  result.found = measure.stop();
  oscillation.look();
  result.weights = oscillation.end();
  // Every slot once in each format, as it was met first: weights before the update.
  std::set<std::tuple<std::string, std::string, std::string>> seen;
  std::erase_if(result.found.operands,
                [&](const auto& o) { return !seen.emplace(o.layer, o.slot, to_text(o.quantizer)).second; });
  return result;
}

/// One line of the table: the operands that it sums up, and the worst of them.
struct Row {
  std::vector<const Measurements::Operand*> operands;

  template <class Of>
  double median(const Of& of) const {
    std::vector<double> all;
    for (const auto* operand : operands) all.push_back(of(operand->errors));
    return mxtape::median(all);
  }
  const Measurements::Operand& worst() const {
    return **std::ranges::max_element(operands, {}, [](auto* o) { return o->errors.relative_rmse(); });
  }
};

using Rows = std::vector<std::pair<std::pair<std::string, std::string>, Row>>;  // by place and format

/// Places in the order of the computation, the format in use first.
Rows rows_of(const Inspection& inspection, bool by_layer) {
  Rows rows;
  std::vector<std::string> places;
  for (const bool in_use : {true, false})
    for (const auto& operand : inspection.found.operands) {
      const std::pair key(by_layer ? operand.layer + " " + operand.slot : operand.slot,
                          to_text(operand.quantizer) + (operand.in_use ? " *" : ""));
      if (std::ranges::find(places, key.first) == places.end()) places.push_back(key.first);
      if (operand.in_use != in_use) continue;
      auto row = std::ranges::find_if(rows, [&](const auto& r) { return r.first == key; });
      if (row == rows.end()) row = rows.insert(rows.end(), {key, {}});
      row->second.operands.push_back(&operand);
    }
  const auto place_of = [&](const auto& row) {
    return std::ranges::find(places, row.first.first) - places.begin();
  };
  std::ranges::stable_sort(rows, {}, place_of);
  return rows;
}

/// Takes out the rows whose format loses nothing, and with `top` > 0 all places but those that lose most in a
/// format in use. Returns what is missing now.
std::string leave_out(Rows& rows, std::int64_t top) {
  const auto error_of = [](const Row& row) { return row.median([](auto& e) { return e.relative_rmse(); }); };
  std::vector<std::pair<double, std::string>> worst;  // places
  for (const auto& [key, row] : rows) {
    if (worst.empty() || worst.back().second != key.first) worst.emplace_back(0, key.first);
    if (key.second.ends_with('*')) worst.back().first = std::min(worst.back().first, -error_of(row));
  }
  std::string text;
  if (const auto exact = std::erase_if(rows, [&](auto& row) { return error_of(row.second) == 0; }))
    text = fmt::format("left out: {} rows in formats that lose nothing here\n", exact);
  if (top == 0 || std::int64_t(worst.size()) <= top) return text;
  text += fmt::format("left out: all but the {} worst of {} places\n", top, worst.size());
  std::ranges::stable_sort(worst, [](auto& a, auto& b) { return a.first < b.first; });
  worst.resize(std::size_t(top));
  const auto rank = [&](const auto& row) {
    return std::ranges::find_if(worst, [&](auto& p) { return p.second == row.first.first; }) - worst.begin();
  };
  std::erase_if(rows, [&](auto& row) { return rank(row) == top; });
  std::ranges::stable_sort(rows, [&](auto& a, auto& b) { return rank(a) < rank(b); });
  return text;
}

/// Fills `table`, and returns the lines below it.
std::string fill(Table& table, const Inspection& inspection, bool by_layer, std::int64_t top) {
  Rows rows = rows_of(inspection, by_layer);
  const std::string left_out = leave_out(rows, top);
  std::string last;
  for (const auto& [key, row] : rows) {
    const auto of = [&, &row = row](auto field) { return row.median([&](auto& e) { return e.*field; }); };
    const auto over = [&, &row = row](int k) {
      return row.median([&](auto& e) { return e.spread_over[k]; });
    };
    table.row(key.first == last ? "" : key.first, key.second,
              row.median([](auto& e) { return e.relative_rmse(); }),
              row.median([](auto& e) { return e.sqnr_db(); }), of(&ErrorStatistics::clipped),
              of(&ErrorStatistics::flushed), over(1), over(2), of(&ErrorStatistics::crest_factor),
              fmt::format("{} ({:.4f})", row.worst().layer, row.worst().errors.relative_rmse()));
    last = key.first;
  }
  return left_out;
}

/// Those that have one reason together: "blocks.0.attn.qkv wgrad.dw dgrad.dx".
std::string left_out_text(const std::vector<Measurements::LeftOut>& left_out) {
  std::map<std::string, std::map<std::string, std::string>> slots;  // by reason and layer
  for (const auto& one : left_out) slots[one.reason][one.layer] += " " + one.slot;
  std::string text;
  for (const auto& [reason, layers] : slots) {
    text += fmt::format("left out, as {}:", reason);
    for (const auto& [layer, names] : layers)
      text += fmt::format("{} {}{}", &names == &layers.begin()->second ? "" : ",", layer, names);
    text += "\n";
  }
  return text;
}

Report run(const Arguments& a) {
  const Inspection i = inspect(a);
  Report out;
  Table weights("layer; oscillation");
  for (const auto& weight : i.weights) weights.row(weight.layer, weight.ratio);
  out.put("checkpoint", i.checkpoint, "step", i.step, "data", i.data, "*", value_of(i.found), "weights",
          weights);
  out.line("checkpoint  {}, step {}\ndata        {}\n", i.checkpoint, i.step, i.data);
  const bool by_layer = a.by == "layer";
  Table& operands = out.table("",
                              "|slot; |format; |rel RMSE|>.4f; |SQNR dB|>.2f; |clipped|>.2%|3; "
                              "|flushed|>.2%; |>10x|>.0%; |>100x|>.0%|2; |crest|>.1f|1; |" +
                                  std::string(by_layer ? "" : "worst layer"));
  out.line(
      "{}* in use; {}>10x, >100x: blocks whose largest magnitude is so many times the smallest that is not 0",
      fill(operands, i, by_layer, a.top), by_layer ? "" : "medians over layers; ");
  if (!i.found.gradients.empty()) out.line("");
  Table& gradients = out.table(
      "", "|layer; |gradient|<8; |cosine|>8.5f; |bias|>+8.5f; |~beside the gradient of unrounded operands");
  for (const auto& g : i.found.gradients) gradients.row(g.layer, g.slot, g.cosine, g.bias, "");
  out.text(left_out_text(i.found.left_out));
  if (!i.spectra.empty()) out.line("");
  Table& spectra = out.table("spectra",
                             "layer|layer; tensor|matrix; |sides|>; effective_rank|effective rank|>.1f; "
                             "largest_share|largest share|>.1%; |largest|>9.3g; |smallest|>9.3g; values");
  for (const auto& [place, s] : i.spectra)
    spectra.row(place.first, place.second, s.values.size(), s.effective_rank, s.largest_share,
                s.values.front(), s.values.back(), s.values);
  if (!i.spectra.empty())
    out.line(
        "effective rank: exp(entropy of the singular values); largest share: of the sum of their squares");
  out.width = columns(stdout);
  return out;
}

Options options(Arguments& a) {
  return {
      {"run", &a.run, run_name_help},
      {"--data", &a.data, "another token file than the recipe's"},
      device_of_run_option(a.device),
      {"--format", &a.formats,
       "a format that is tried on every operand besides its own (mxtape formats lists them); may be "
       "repeated"},
      {"--by", &a.by, "rows: slot (medians over layers) or layer", one_of("slot layer")},
      {"--top", &a.top, "only so many slots, or slots of a layer, the worst first; 0: all, in their order",
       from(0).excludes("--json")},
      {"--spectra", &a.spectra, "singular values of every operand's matrix, too"}};
}

}  // namespace

Command commands::inspect() {
  return {"inspect",
          "What rounding costs a trained model's weights, activations and gradients, format by format",
          with(options, run)};
}

}  // namespace mxtape
