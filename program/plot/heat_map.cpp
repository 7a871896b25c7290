#include "program/plot/heat_map.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <sstream>

#include "core/error.h"
#include "core/files/atomic_file.h"
#include "core/text/nearest_name.h"

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

std::vector<std::string_view> telemetry_measures() {
  return {"relative_rmse",  "sqnr_db",        "clipped",         "flushed", "crest_factor",
          "spread_over_2",  "spread_over_10", "spread_over_100", "cosine",  "bias",
          "relative_error", "oscillation",    "oscillating"};
}

std::vector<std::string> measures_in(const TelemetryLog& log) {
  std::vector<std::string> found;
  for (const std::string_view measure : telemetry_measures())
    if (std::any_of(log.records.begin(), log.records.end(),
                    [&](const auto& record) { return value_of(record, std::string(measure)).has_value(); }))
      found.emplace_back(measure);
  return found;
}

HeatMap heat_map(const TelemetryLog& log, const std::string& measure, const std::string& format) {
  const auto known = telemetry_measures();
  require(std::find(known.begin(), known.end(), measure) != known.end(), ExitCode::usage,
          "--telemetry {}: is no measure{}", measure, suggestion(measure, known));
  HeatMap map{log.name, measure, format, {}, {}, {}};
  std::vector<std::string> slots;
  std::set<std::string> others;
  std::map<std::pair<std::size_t, std::size_t>, std::map<std::size_t, double>> found;  // by slot and layer
  for (const auto& record : log.records) {
    const bool in_use = record.value("in_use", true);
    if (!in_use) others.insert(record.value("format", ""));
    const auto value = value_of(record, measure);
    const bool chosen = format.empty() ? in_use : !in_use && record.value("format", "") == format;
    if (!value || !chosen) continue;
    const std::size_t step = place_of(map.steps, record["step"].get<std::int64_t>());
    const std::size_t layer = place_of(map.layers, record["layer"].get<std::string>());
    found[{place_of(slots, record["slot"].get<std::string>()), layer}][step] = *value;
  }
  require(format.empty() || others.contains(format), ExitCode::usage, "--format '{}': {} has {}", format,
          log.file.string(),
          others.empty() ? "no what-if formats (telemetry.formats)"
                         : fmt::format("'{}'", fmt::join(others, "', '")));
  require(!found.empty(), ExitCode::usage, "--telemetry {}: no record in {} has it{}", measure,
          log.file.string(), format.empty() ? "" : " of a what-if format");
  for (const auto& slot : slots)
    map.panels.push_back({slot, {map.layers.size(), std::vector<double>(map.steps.size(), NAN)}});
  for (const auto& [place, values] : found)
    for (const auto& [step, value] : values) map.panels[place.first].values[place.second][step] = value;
  return map;
}

std::string heat_table(const HeatMap& map) {
  constexpr std::size_t most = 8;
  std::vector<std::size_t> shown;
  const std::size_t count = std::min(most, map.steps.size()), last = map.steps.size() - 1;
  for (std::size_t i = 0; i < count; ++i) shown.push_back(count > 1 ? i * last / (count - 1) : 0);
  std::size_t width = 5;
  for (const auto& layer : map.layers) width = std::max(width, layer.size());
  std::string out;
  for (const auto& panel : map.panels) {
    out += fmt::format("{} of {}{}\n{:<{}}", map.measure, panel.slot,
                       map.format.empty() ? "" : " in " + map.format, "layer", width);
    for (const std::size_t step : shown) out += fmt::format("  {:>9}", map.steps[step]);
    out += "\n";
    for (std::size_t layer = 0; layer < map.layers.size(); ++layer) {
      const auto& values = panel.values[layer];
      if (std::all_of(values.begin(), values.end(), [](double v) { return std::isnan(v); })) continue;
      out += fmt::format("{:<{}}", map.layers[layer], width);
      for (const std::size_t step : shown)
        out +=
            std::isnan(values[step]) ? fmt::format("  {:>9}", "-") : fmt::format("  {:>9.4g}", values[step]);
      out += "\n";
    }
    out += "\n";
  }
  return out;
}

}  // namespace mxtape
