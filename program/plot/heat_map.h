#pragma once
#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>
#include <span>
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

/// A field of the records that a heat map can show.
struct TelemetryMeasure {
  std::string_view name;  ///< "relative_rmse", "spread_over_10", "oscillation"
  std::string_view title, unit;
  bool is_signed = false;
  double zero = 0;  ///< what the picture takes from each value
};
std::span<const TelemetryMeasure> telemetry_measures();

/// Those that some record of this format has. `format` and what is thrown: as of heat_map().
std::vector<std::string> measures_in(const TelemetryLog&, const std::string& format);

/// One measure of a run: layers by steps, a panel for each slot that has it.
struct HeatMap {
  struct Panel {
    std::string slot;
    std::vector<std::vector<double>> values;  ///< [layer][step]; NaN where there is no record
    std::vector<std::vector<bool>> rounded;  ///< false: an operand in f32 or bf16, or none that lost anything
    double shown(std::size_t layer, std::size_t step) const;  ///< NaN where it is not rounded
  };
  std::string run, measure, format;  ///< format: "" for the one in use
  std::set<std::string> formats;     ///< of the rounded ones
  std::vector<std::string> layers;   ///< in the order of the model
  std::vector<std::int64_t> steps;
  std::vector<Panel> panels;
};
/// `format`: a what-if format, as the records spell it; "" is the one in use. Throws Error(usage) for a
/// measure or a format that no record has, with those that there are.
HeatMap heat_map(const TelemetryLog&, const std::string& measure, const std::string& format);

/// Numbers of evenly spaced steps up to the last one: as many as `width` columns hold, and at most eight.
std::string heat_table(const HeatMap&, std::size_t width);
/// As a gnuplot script: a picture with all panels, in one scale of colours. What has two signs (`bias`, and
/// `cosine` less 1) has 0 in its middle.
std::string heat_script(const HeatMap&, const std::string& terminal, const std::filesystem::path& output,
                        const std::string& title);

}  // namespace mxtape
