#pragma once
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace mxtape {

/// The metrics of a run, read back from its metrics.jsonl.
struct RunLog {
  struct Point {
    std::int64_t step;
    double loss;  ///< [nats per token]
  };
  std::string name;            ///< the run folder's name; of a sweep's runs "arm/seed"
  std::string past_missing{};  ///< of a branch: why its curve does not begin on its parent's
  std::vector<Point> train, validation;
  struct Turn {
    std::int64_t step;
    /// "branch" from another run, "change" of the recipe, "rollback" to the step, "spike", "skip" of a step
    std::string event;
    std::int64_t from = 0;    ///< of a rollback: the step that was not finite
    std::int64_t number = 0;  ///< of a rollback: the n-th of the run
    std::string data{};       ///< of a change of the data: "<hash before> -> <hash after>"
  };
  std::vector<Turn> turns{};
  /// Training that rollbacks took back, by rollback.
  std::vector<std::vector<Point>> taken_back{};
  /// The last step that was trained or skipped; -1: none was.
  std::int64_t last_step() const;
  std::optional<double> floor;     ///< of the validation split, where it is known
  double median_milliseconds = 0;  ///< of a step
  double median_tokens_per_second = 0;
};

/// `run` is a run's folder or a metrics file. A torn last line, as a crash leaves it, is left out. Throws
/// Error(data) with file and line for anything else that is no record, or if no step is on record.
RunLog read_run_log(const std::filesystem::path& run);
/// The same of a run whose steps may all have been skipped, or that diverged in its first one.
RunLog read_records(const std::filesystem::path& run);

/// The same of a branch, which begins with its parent's last points, so that its curve starts on the
/// parent's; with `generations`, with the whole past of so many. Where the parent is gone, or the checkpoint
/// that it branched from is there and another now, the branch alone.
RunLog read_run_log_with_parent(const std::filesystem::path& run, int generations = 0);

/// The steps after which a run first has a validation loss: where the straight line from the last validation
/// above it to the next has it, or the first validation's if that one is not above. None: it never has.
std::optional<double> steps_to(const std::vector<RunLog::Point>& validation, double loss);

/// What a sweep notes of a run that ended, in sweep.json of its folder.
struct RunRecord {
  std::string arithmetic;          ///< arithmetic_of() the program that trained it
  std::string data_hash;           ///< of the token file
  int code = 0;                    ///< exit code of its process; 128 + n: ended by signal n
  std::string message;             ///< of the failure
  double seconds = 0;              ///< of its process, the last one if it was resumed
  std::optional<double> peak_mib;  ///< most memory of that process
  int threads = 0;
};

std::filesystem::path record_file(const std::filesystem::path& run);
/// None if there is no such file, or it is no record: then it is as if nobody had noted anything. Throws
/// Error(resource) if it cannot be read.
std::optional<RunRecord> read_record(const std::filesystem::path& run);
void write_record(const std::filesystem::path& run, const RunRecord&);

/// The records of a run that ended after so many steps; none if they lack its last validation. Throws
/// Error(resource) if they cannot be read: the run may be whole.
std::optional<RunLog> log_of_whole_run(const std::filesystem::path& run, std::int64_t steps);

/// What decides the bits of a run beside its recipe and data: "mxtape 0.1.0, cpu, AMX". `description` is
/// Backend::description() or the first line of a run's device.txt, of which most decides nothing
/// (docs/platforms.md).
std::string arithmetic_of(const std::string& description);

}  // namespace mxtape
