#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <map>

#include "core/error.h"
#include "program/command.h"
#include "program/json/json_output.h"
#include "program/progress.h"
#include "program/run_name.h"
#include "program/telemetry/inspect.h"
#include "program/telemetry/measurements_json.h"
#include "program/text_table.h"

namespace mxtape {
namespace {

struct Arguments {
  std::string run, by = "slot";
  std::vector<std::string> formats{"mxfp8", "mxfp6_e2m3", "mxfp4", "mxfp4 block=16", "nvfp4"};
  InspectOptions options;
  std::int64_t top = 0;
  bool json = false;
};

/// One line of the table: the operands that it sums up, and the worst of them.
struct Row {
  std::vector<const Measurements::Operand*> operands;

  template <class Of>
  double median(const Of& of) const {
    std::vector<double> all;
    for (const auto* operand : operands) all.push_back(of(operand->errors));
    const auto middle = all.begin() + std::ptrdiff_t(all.size() / 2);
    std::nth_element(all.begin(), middle, all.end());
    return *middle;
  }
  const Measurements::Operand& worst() const {
    return **std::max_element(operands.begin(), operands.end(), [](const auto* a, const auto* b) {
      return a->errors.relative_rmse() < b->errors.relative_rmse();
    });
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
      if (std::find(places.begin(), places.end(), key.first) == places.end()) places.push_back(key.first);
      if (operand.in_use != in_use) continue;
      auto row = std::find_if(rows.begin(), rows.end(), [&](const auto& r) { return r.first == key; });
      if (row == rows.end()) row = rows.insert(rows.end(), {key, {}});
      row->second.operands.push_back(&operand);
    }
  const auto place_of = [&](const auto& row) {
    return std::find(places.begin(), places.end(), row.first.first) - places.begin();
  };
  std::stable_sort(rows.begin(), rows.end(),
                   [&](const auto& a, const auto& b) { return place_of(a) < place_of(b); });
  return rows;
}

/// Takes out the rows whose format loses nothing, and with `top` > 0 all places but those that lose most in
/// the format in use, which stands first. Returns what is missing now.
std::string leave_out(Rows& rows, std::int64_t top) {
  const auto error_of = [](const Row& row) { return row.median([](auto& e) { return e.relative_rmse(); }); };
  std::vector<std::pair<double, std::string>> worst;  // places
  for (const auto& [key, row] : rows)
    if (worst.empty() || worst.back().second != key.first) worst.emplace_back(-error_of(row), key.first);
  std::string text;
  if (const auto exact = std::erase_if(rows, [&](auto& row) { return error_of(row.second) == 0; }))
    text = fmt::format("left out: {} rows in formats that lose nothing here\n", exact);
  if (top == 0 || std::int64_t(worst.size()) <= top) return text;
  text += fmt::format("left out: all but the {} worst of {} places\n", top, worst.size());
  std::stable_sort(worst.begin(), worst.end(), [](auto& a, auto& b) { return a.first < b.first; });
  worst.resize(std::size_t(top));
  const auto rank = [&](const auto& row) {
    return std::find_if(worst.begin(), worst.end(), [&](auto& p) { return p.second == row.first.first; }) -
           worst.begin();
  };
  std::erase_if(rows, [&](auto& row) { return rank(row) == top; });
  std::stable_sort(rows.begin(), rows.end(), [&](auto& a, auto& b) { return rank(a) < rank(b); });
  return text;
}

void print_table(const Inspection& inspection, bool by_layer, std::int64_t top) {
  Rows rows = rows_of(inspection, by_layer);
  const std::string left_out = leave_out(rows, top);
  std::vector<TextTable::Column> columns{{"slot", true}, {"format", true},      {"rel RMSE"},
                                         {"SQNR dB"},    {"clipped", false, 3}, {"flushed"},
                                         {">10x"},       {">100x", false, 2},   {"crest", false, 1}};
  if (!by_layer) columns.push_back({"worst layer", true});
  TextTable table(std::move(columns));
  std::string last;
  for (const auto& [key, row] : rows) {
    const auto number = [&, &row = row](int digits, auto of) {
      return fmt::format("{:.{}f}", row.median(of), digits);
    };
    const auto percent = [&, &row = row](int digits, auto of) {
      return fmt::format("{:.{}f}%", 100 * row.median(of), digits);
    };
    std::vector<std::string> cells{key.first == last ? "" : key.first,
                                   key.second,
                                   number(4, [](auto& e) { return e.relative_rmse(); }),
                                   number(2, [](auto& e) { return e.sqnr_db(); }),
                                   percent(2, [](auto& e) { return e.clipped; }),
                                   percent(2, [](auto& e) { return e.flushed; }),
                                   percent(0, [](auto& e) { return e.spread_over[1]; }),
                                   percent(0, [](auto& e) { return e.spread_over[2]; }),
                                   number(1, [](auto& e) { return e.crest_factor; })};
    if (!by_layer)
      cells.push_back(fmt::format("{} ({:.4f})", row.worst().layer, row.worst().errors.relative_rmse()));
    table.row(std::move(cells));
    last = key.first;
  }
  fmt::print("\n{}{}", table.text(mxtape::columns(stdout)), left_out);
  fmt::print(
      "* in use; {}>10x, >100x: blocks whose largest magnitude is so many times the smallest that is not 0\n",
      by_layer ? "" : "medians over layers; ");
}

void print_gradients(const std::vector<Measurements::Gradient>& gradients) {
  if (gradients.empty()) return;
  std::size_t width = 5;
  for (const auto& g : gradients) width = std::max(width, g.layer.size());
  fmt::print("\n{:<{}}  {:<8}  {:>8}  {:>8}   beside the gradient of unrounded operands\n", "layer", width,
             "gradient", "cosine", "bias");
  for (const auto& g : gradients)
    fmt::print("{:<{}}  {:<8}  {:>8.5f}  {:>+8.5f}\n", g.layer, width, g.slot, g.cosine, g.bias);
}

/// Those that have one reason together: "blocks.0.attn.qkv wgrad.dw dgrad.dx".
void print_left_out(const std::vector<Measurements::LeftOut>& left_out) {
  std::map<std::string, std::map<std::string, std::string>> slots;  // by reason and layer
  for (const auto& one : left_out) slots[one.reason][one.layer] += " " + one.slot;
  for (const auto& [reason, layers] : slots) {
    fmt::print("left out, as {}:", reason);
    for (const auto& [layer, names] : layers)
      fmt::print("{} {}{}", &names == &layers.begin()->second ? "" : ",", layer, names);
    fmt::print("\n");
  }
}

void print_spectra(const Inspection& inspection) {
  if (inspection.spectra.empty()) return;
  std::size_t width = 5;
  for (const auto& [place, s] : inspection.spectra) width = std::max(width, place.first.size());
  fmt::print("\n{:<{}}  {:<6}  {:>5}  {:>14}  {:>13}  {:>9}  {:>9}\n", "layer", width, "matrix", "sides",
             "effective rank", "largest share", "largest", "smallest");
  for (const auto& [place, s] : inspection.spectra)
    fmt::print("{:<{}}  {:<6}  {:>5}  {:>14.1f}  {:>12.1f}%  {:>9.3g}  {:>9.3g}\n", place.first, width,
               place.second, s.values.size(), s.effective_rank, 100 * s.largest_share, s.values.front(),
               s.values.back());
  fmt::print(
      "effective rank: exp(entropy of the singular values); largest share: of the sum of their squares\n");
}

Json json_of(const Inspection& i) {
  Json json{{"checkpoint", i.checkpoint}, {"step", i.step}, {"data", i.data}};
  json.update(json_of(i.found));
  json["weights"] = Json::array();
  for (const auto& weight : i.weights)
    json["weights"].push_back({{"layer", weight.layer}, {"oscillation", weight.ratio}});
  json["spectra"] = Json::array();
  for (const auto& [place, s] : i.spectra)
    json["spectra"].push_back({{"layer", place.first},
                               {"tensor", place.second},
                               {"effective_rank", s.effective_rank},
                               {"largest_share", s.largest_share},
                               {"values", s.values}});
  return json;
}

void run(Arguments& a) {
  for (const auto& text : a.formats) a.options.formats.push_back(parse_quantizer(text));
  const Inspection inspection = inspect(a.run, a.options);
  if (a.json) return print_json(json_of(inspection));
  fmt::print("checkpoint  {}, step {}\ndata        {}\n", inspection.checkpoint, inspection.step,
             inspection.data);
  print_table(inspection, a.by == "layer", a.top);
  print_gradients(inspection.found.gradients);
  print_left_out(inspection.found.left_out);
  print_spectra(inspection);
}

}  // namespace

void add_inspect_command(CLI::App& app) {
  auto* command = app.add_subcommand(
      "inspect",
      "What rounding costs a trained model's weights, activations and gradients, format by format");
  auto a = std::make_shared<Arguments>();
  command->add_option("run", a->run, run_name_help)->required();
  command->add_option("--data", a->options.data, "another token file than the recipe's");
  command->add_option("--device", a->options.device,
                      "cpu or cuda; default: the device of the checkpoint's recipe");
  repeatable(command->add_option(
                 "--format", a->formats,
                 "a format that is tried on every operand besides its own (mxtape formats lists them); "
                 "may be repeated"))
      ->capture_default_str();
  command->add_option("--by", a->by, "rows: slot (medians over layers) or layer")
      ->check(CLI::IsMember({"slot", "layer"}))
      ->capture_default_str();
  command
      ->add_option("--top", a->top, "only so many slots or layers, the worst first; 0: all, in their order")
      ->check(whole(0))
      ->capture_default_str();
  command->add_flag("--spectra", a->options.spectra, "singular values of every operand's matrix, too");
  add_json_option(*command, a->json);
  command->callback([a] { run(*a); });
}

}  // namespace mxtape
