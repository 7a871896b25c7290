#include "program/plot/heat_map.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <sstream>

#include "core/error.h"
#include "core/files/atomic_file.h"
#include "core/text/nearest_name.h"
#include "program/show/report.h"

namespace mxtape {
namespace {

constexpr std::string_view spread = "spread_over_";

/// A record's value of a measure; nothing if it has none. What was not a number is NaN.
std::optional<double> value_of(const nlohmann::json& record, const std::string& measure) {
  const bool in_spread = measure.starts_with(spread) && record.contains("spread_over");
  const nlohmann::json& holder = in_spread ? record["spread_over"] : record;
  const auto found = holder.find(in_spread ? measure.substr(spread.size()) : measure);
  if (found == holder.end()) return {};
  return found->is_number() ? found->get<double>() : NAN;
}

template <class T>
std::size_t place_of(std::vector<T>& all, const T& one) {
  const auto found = std::find(all.begin(), all.end(), one);
  if (found != all.end()) return std::size_t(found - all.begin());
  all.push_back(one);
  return all.size() - 1;
}

/// Of this what-if format, or in use where `format` is empty.
bool is_of(const nlohmann::json& record, const std::string& format) {
  const bool in_use = record.value("in_use", true);
  return format.empty() ? in_use : !in_use && record.value("format", "") == format;
}

/// Whether rounding lost something: a cast to what the GEMM multiplies anyhow is none.
bool is_rounded(const nlohmann::json& record) {
  const std::string format = record.value("format", "");
  return format != "f32" && format != "bf16" && value_of(record, "relative_rmse").value_or(1) != 0;
}

/// The layers of which operands in use were measured, and none was rounded: their gradients err by a GEMM's
/// sums.
std::set<std::string> layers_in_full(const TelemetryLog& log) {
  std::set<std::string> rounded, layers;
  for (const auto& record : log.records)
    if (record.value("kind", "") == "operand" && is_of(record, ""))
      (is_rounded(record) ? rounded : layers).insert(record["layer"].get<std::string>());
  for (const auto& layer : rounded) layers.erase(layer);
  return layers;
}

void require_format(const TelemetryLog& log, const std::string& format) {
  std::set<std::string> others;
  for (const auto& record : log.records)
    if (!record.value("in_use", true)) others.insert(record.value("format", ""));
  require(format.empty() || others.contains(format), ExitCode::usage, "--format '{}': {} has {}", format,
          log.file.string(),
          others.empty() ? "no what-if formats (telemetry.formats)"
                         : fmt::format("'{}'", fmt::join(others, "', '")));
}

bool is_record(const nlohmann::json& record) {
  return record.is_object() && record.contains("step") && record["step"].is_number_integer() &&
         record.contains("layer") && record["layer"].is_string() && record.contains("slot") &&
         record["slot"].is_string();
}

}  // namespace

TelemetryLog read_telemetry(const std::filesystem::path& run) {
  const bool folder = std::filesystem::is_directory(run);
  TelemetryLog log;
  log.file = folder ? run / "telemetry.jsonl" : run;
  log.name = std::filesystem::absolute(log.file).parent_path().filename().string();
  require(std::filesystem::exists(log.file), ExitCode::data,
          "{}: is not there; a run writes it where its recipe sets telemetry.every", log.file.string());
  std::istringstream in(read_whole_text(log.file));
  std::size_t number = 0;
  for (std::string line; std::getline(in, line);) {
    ++number;
    auto record = nlohmann::json::parse(line, nullptr, false);
    if (is_record(record))
      log.records.push_back(std::move(record));
    else
      require(in.eof(), ExitCode::data, "{}:{}: not a record of a run's telemetry", log.file.string(),
              number);
  }
  require(!log.records.empty(), ExitCode::data, "{}: holds no measurement", log.file.string());
  return log;
}

std::span<const TelemetryMeasure> telemetry_measures() {
  constexpr static std::array measures{
      TelemetryMeasure{"relative_rmse", "relative RMSE", "rms of the error over that of the numbers"},
      TelemetryMeasure{"sqnr_db", "SQNR", "dB"},
      TelemetryMeasure{"clipped", "clipped", "share of the numbers"},
      TelemetryMeasure{"flushed", "flushed to zero", "share of the numbers"},
      TelemetryMeasure{"crest_factor", "crest factor", "largest magnitude over rms"},
      TelemetryMeasure{"spread_over_2", "spread over 2", "share of the blocks"},
      TelemetryMeasure{"spread_over_10", "spread over 10", "share of the blocks"},
      TelemetryMeasure{"spread_over_100", "spread over 100", "share of the blocks"},
      TelemetryMeasure{"cosine", "cosine - 1", "0: same direction", true, 1},
      TelemetryMeasure{"bias", "bias", "of the exact, 0: none", true},
      TelemetryMeasure{"relative_error", "relative error", "norm of the error over the gradient's"},
      TelemetryMeasure{"oscillation", "oscillation", "way of the rounded weights over that of the weights"},
      TelemetryMeasure{"oscillating", "oscillating", "share of the weights that moved"}};
  return measures;
}

std::vector<std::string> measures_in(const TelemetryLog& log, const std::string& format) {
  require_format(log, format);
  std::vector<std::string> found;
  for (const auto& [measure, title, unit, is_signed, zero] : telemetry_measures())
    if (std::any_of(log.records.begin(), log.records.end(), [&](const auto& record) {
          return is_of(record, format) && value_of(record, std::string(measure)).has_value();
        }))
      found.emplace_back(measure);
  return found;
}

HeatMap heat_map(const TelemetryLog& log, const std::string& measure, const std::string& format) {
  const auto known = names_in(telemetry_measures());
  require(std::find(known.begin(), known.end(), measure) != known.end(), ExitCode::usage,
          "--telemetry {}: is no measure{}", measure, suggestion(measure, known));
  require_format(log, format);
  const std::set<std::string> full = layers_in_full(log);
  bool any = false;
  HeatMap map{log.name, measure, format, {}, {}, {}, {}};
  std::vector<std::string> slots;
  struct Measured {
    double value;
    bool rounded;
  };
  std::map<std::pair<std::size_t, std::size_t>, std::map<std::size_t, Measured>> found;  // by slot and layer
  for (const auto& record : log.records) {
    const auto value = value_of(record, measure);
    if (!value || !is_of(record, format)) continue;
    const std::string in = record["layer"].get<std::string>();
    const bool rounded = is_rounded(record) && (record.value("kind", "") != "gradient" || !full.contains(in));
    any = any || rounded;
    if (rounded && record.contains("format")) map.formats.insert(record["format"].get<std::string>());
    const std::size_t step = place_of(map.steps, record["step"].get<std::int64_t>());
    const std::size_t layer = place_of(map.layers, in);
    found[{place_of(slots, record["slot"].get<std::string>()), layer}][step] = {*value, rounded};
  }
  require(!found.empty(), ExitCode::usage, "--telemetry {}: no record in {} has it{}", measure,
          log.file.string(), format.empty() ? "" : " of a what-if format");
  for (const auto& slot : slots)
    map.panels.push_back({slot,
                          {map.layers.size(), std::vector<double>(map.steps.size(), NAN)},
                          {map.layers.size(), std::vector<bool>(map.steps.size(), true)}});
  for (const auto& [place, values] : found)
    for (const auto& [step, one] : values) {
      map.panels[place.first].values[place.second][step] = one.value;
      map.panels[place.first].rounded[place.second][step] = one.rounded || !any;
    }
  return map;
}

double HeatMap::Panel::shown(std::size_t layer, std::size_t step) const {
  return rounded[layer][step] ? values[layer][step] : NAN;
}

std::string heat_table(const HeatMap& map, std::size_t width) {
  constexpr std::size_t most = 8;
  double largest = 0;
  std::size_t name = std::string_view("layer").size(), number = std::to_string(map.steps.back()).size();
  for (const auto& layer : map.layers) name = std::max(name, layer.size());
  for (const auto& panel : map.panels)
    for (const auto& values : panel.values)
      for (const double value : values)
        if (std::isfinite(value)) largest = std::max(largest, std::fabs(value));
  // The same decimals for all, four digits of the largest.
  const int decimals = std::clamp(3 - int(std::floor(std::log10(std::max(largest, 1e-12)))), 0, 12);
  const auto text_of = [&](double value) {
    return std::isnan(value) ? "-" : fmt::format("{:.{}f}", value, decimals);
  };
  for (const auto& panel : map.panels)
    for (const auto& values : panel.values)
      for (const double value : values) number = std::max(number, text_of(value).size());
  const std::size_t room = width > name ? (width - name) / (number + 2) : 0, all = map.steps.size();
  const std::size_t count = std::clamp<std::size_t>(room, 1, most), every = (all + count - 1) / count;
  std::vector<std::size_t> shown;
  for (std::size_t step = (all - 1) % every; step < all; step += every) shown.push_back(step);

  std::string out;
  for (const auto& panel : map.panels) {
    out +=
        fmt::format("{} of {}{}\n", map.measure, panel.slot, map.format.empty() ? "" : " in " + map.format);
    std::string columns = "|layer";
    for (const std::size_t step : shown) columns += fmt::format("; |{}|>", map.steps[step]);
    Table table(columns);
    for (std::size_t layer = 0; layer < map.layers.size(); ++layer) {
      std::vector<Value> cells{map.layers[layer]};
      for (const std::size_t step : shown) cells.emplace_back("", "", text_of(panel.shown(layer, step)));
      if (std::any_of(cells.begin() + 1, cells.end(), [](auto& cell) { return cell.text != "-"; }))
        table.row(std::move(cells));
    }
    out += table.text() + "\n";
  }
  return out;
}

}  // namespace mxtape
