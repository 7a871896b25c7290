#pragma once
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "program/metrics/event_file.h"

namespace mxtape {

/// What one optimizer step reports.
struct StepRecord {
  std::int64_t step = 0;  ///< steps done, this one included
  double loss = 0;        ///< mean over the step's tokens, before the update [nats per token]
  double norm = 0;        ///< of the global gradient, before clipping
  double learning_rate = 0;
  double milliseconds = 0;
  double tokens_per_second = 0;
};

/// The numbers of a run, for programs: metrics.jsonl (one JSON object a line, on its way to the disk before
/// the next step begins) and a TensorBoard event file. docs/training.md names the fields.
class Metrics {
 public:
  /// Goes on after `steps_done`: later records of an earlier attempt are cut off. A line that is no record
  /// goes to metrics.broken.txt beside the file, and note() says so; the records around it stay. `recipe` is
  /// the resolved recipe's text, for TensorBoard: written at the start, and again where a resume changed it.
  /// Throws Error(resource).
  Metrics(const std::filesystem::path& jsonl, const std::filesystem::path& events, std::int64_t steps_done,
          const std::string& recipe);
  ~Metrics();
  Metrics(const Metrics&) = delete;
  Metrics& operator=(const Metrics&) = delete;

  /// What was found wrong with the file, for people; empty if nothing was.
  const std::string& note() const { return note_; }
  void step(const StepRecord&);
  /// An event, as a whole record: a turn in the run's past (program/lineage.h), a spike, a skipped step.
  void turn(const std::string& json) { line(json); }
  /// `floor`: the exact entropy of the data, where it is known [nats per token].
  void validation(std::int64_t step, double loss, std::optional<double> floor);
  /// Tries again what could not be written.
  void flush();
  /// Puts the file on the disk itself: before a checkpoint, which must not be newer than its records.
  void sync();

 private:
  void line(const std::string&);

  std::filesystem::path jsonl_path_;
  int file_ = -1;
  std::int64_t written_ = 0;  // bytes of whole records in the file
  std::string pending_;       // records that could not be written yet
  std::string note_;
  std::string last_line_;
  EventFile events_;
};

}  // namespace mxtape
