#pragma once
#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace mxtape {

/// The records of a run's telemetry.jsonl.
struct TelemetryLog {
  std::filesystem::path file;
  std::string name;  ///< of the run's folder
  std::vector<nlohmann::json> records;
};
/// `run` is a run's folder or a telemetry file. A torn last line, as a crash leaves it, is left out. Throws
/// Error(data) with file and line for anything else that is no record, or if there is none.
TelemetryLog read_telemetry(const std::filesystem::path& run);

/// The fields of the records that a heat map can show: "relative_rmse", "spread_over_10", "oscillation".
std::vector<std::string_view> telemetry_measures();

/// Those that some record has.
std::vector<std::string> measures_in(const TelemetryLog&);

/// One measure of a run: layers by steps, a panel for each slot that has it.
struct HeatMap {
  struct Panel {
    std::string slot;
    std::vector<std::vector<double>> values;  ///< [layer][step]; NaN where there is no record
  };
  std::string run, measure, format;  ///< format: "" for the one in use
  std::vector<std::string> layers;   ///< in the order of the model
  std::vector<std::int64_t> steps;
  std::vector<Panel> panels;
};
/// `format`: a what-if format, as the records spell it; "" is the one in use. Throws Error(usage) for a
/// measure or a format that no record has, with those that there are.
HeatMap heat_map(const TelemetryLog&, const std::string& measure, const std::string& format);

/// Numbers, at most eight steps of each panel.
std::string heat_table(const HeatMap&);
/// As a gnuplot script: a picture with all panels, in one scale of colours.
std::string heat_script(const HeatMap&, const std::string& terminal, const std::filesystem::path& output,
                        const std::string& title);

}  // namespace mxtape
