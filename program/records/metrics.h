#pragma once
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>

#include "core/files/descriptor.h"
#include "program/records/event_file.h"

namespace mxtape {

/// A file of JSON objects, one a line, each with its `step`: the records of a run. Each line reaches the
/// operating system before add() returns; a record is there whole or not at all.
class JsonLines {
 public:
  /// Goes on after `steps_done`: later records of an earlier attempt are cut off, and those that are `stale`.
  /// A line that is no record goes to <stem>.broken.txt beside the file, and note() says so; the records
  /// around it stay. Throws Error(resource).
  JsonLines(const std::filesystem::path&, std::int64_t steps_done,
            const std::function<bool(const std::string& record)>& stale = {});

  /// What was found wrong with the file, for people; empty if nothing was.
  const std::string& note() const { return note_; }
  /// One record, or several with a line break between two. Records that are the last ones of the file already
  /// are not repeated: a run may begin again where it had begun.
  void add(const std::string& records);
  /// Tries again what could not be written.
  void flush();
  /// Puts the file on the disk itself.
  void sync();

 private:
  std::filesystem::path path_;
  Descriptor file_;
  std::int64_t written_ = 0;  // bytes of whole records in the file
  std::string pending_;       // records that could not be written yet
  std::string note_, last_;
};

/// The lines of `path` that are records of steps after `step`, each with its line break; "" if there is no
/// file.
std::string records_after(const std::filesystem::path& path, std::int64_t step);

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
  /// Goes on after `steps_done`, as JsonLines and EventFile do. `recipe` is the resolved recipe's text, for
  /// TensorBoard: written at the start, and again where a resume changed it. `stale`: records of JsonLines.
  /// Throws Error(resource).
  Metrics(const std::filesystem::path& jsonl, const std::filesystem::path& events, std::int64_t steps_done,
          const std::string& recipe, const std::function<bool(const std::string& record)>& stale = {});

  /// What was found wrong with the file, for people; empty if nothing was.
  const std::string& note() const { return lines_.note(); }
  void step(const StepRecord&);
  /// An event, as a whole record: a turn in the run's past (program/records/lineage.h), a spike, a skipped
  /// step.
  void turn(const std::string& json) { lines_.add(json); }
  /// `floor`: the exact entropy of the data, where it is known [nats per token].
  void validation(std::int64_t step, double loss, std::optional<double> floor);
  /// Tries again what could not be written.
  void flush() { lines_.flush(); }
  /// Puts the file on the disk itself: before a checkpoint, which must not be newer than its records.
  void sync() { lines_.sync(); }
  /// For what else there is to show of a step.
  EventFile& events() { return events_; }

 private:
  EventFile events_;
  JsonLines lines_;
};

}  // namespace mxtape
