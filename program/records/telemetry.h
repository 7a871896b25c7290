#pragma once
#include <filesystem>
#include <vector>

#include "kernels/observers/measure.h"
#include "nn/model.h"
#include "program/records/event_file.h"
#include "program/records/metrics.h"
#include "program/records/oscillation.h"
#include "program/show/report.h"
#include "recipes/telemetry.h"
#include "train/trainer.h"

namespace mxtape {

/// What a recipe's telemetry asks for: Measurements of a step, of the first micro-batch.
Measure::Options measuring_options(const Recipe&);

/// Measures every telemetry.every-th step of a run, and writes down what it finds: telemetry.jsonl and
/// TensorBoard's event file. docs/telemetry.md names the fields. No number of the run depends on it.
class Telemetry {
 public:
  /// `measure` observes what the trainer computes on, `backend`. Goes on after the trainer's steps, as
  /// JsonLines does. Throws Error(resource).
  Telemetry(Measure& measure, Backend& backend, Trainer&, const std::filesystem::path& jsonl, EventFile&);
  ~Telemetry();

  const std::string& note() const { return lines_.note(); }
  void before_step();
  /// The step did not come to its end, or changed nothing.
  void abandon();
  /// Throws Error(resource) if the records cannot be written.
  void after_step();
  const Measurements& last() const { return last_; }  ///< of the last step, empty if it was not measured
  void flush() { lines_.flush(); }
  void sync() { lines_.sync(); }

 private:
  std::int64_t next_measurement() const;
  void write(Measurements, const std::vector<Oscillation::Found>&);

  Measure& measure_;
  Backend& backend_;
  Trainer& trainer_;
  const TelemetryConfig config_;
  const TelemetryPlan plan_;
  JsonLines lines_;
  EventFile& events_;
  Oscillation oscillation_;
  Measurements last_;
};

/// {"operands": [...], "gradients": [...], "left_out": [...]}: docs/json.md names the fields.
Value value_of(const Measurements&);
Value value_of(const ErrorStatistics&);
/// What is measured of one, without its place.
Value value_of_operand(const Measurements::Operand&);
Value value_of_gradient(const Measurements::Gradient&);

/// Measures the next step, with the copies of weights that it will find at hand; what is missing it makes
/// itself.
void start(Measure&, Backend&, Model&);

}  // namespace mxtape
