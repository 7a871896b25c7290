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
  std::string name;  ///< the run folder's name; of a sweep's runs "arm/seed"
  std::vector<Point> train, validation;
  struct Turn {
    std::int64_t step;
    /// "branch" from another run, "change" of the recipe, "rollback" to the step, "spike", "skip" of a step
    std::string event;
    std::int64_t from = 0;    ///< of a rollback: the step that was not finite
    std::int64_t number = 0;  ///< of a rollback: the n-th of the run
  };
  std::vector<Turn> turns{};
  /// Training that rollbacks took back, by rollback.
  std::vector<std::vector<Point>> taken_back{};
  /// The last step that was trained or skipped.
  std::int64_t last_step() const;
  std::optional<double> floor;     ///< of the validation split, where it is known
  double median_milliseconds = 0;  ///< of a step
  double median_tokens_per_second = 0;
};

/// `run` is a run's folder or a metrics file. A torn last line, as a crash leaves it, is left out. Throws
/// Error(data) with file and line for anything else that is no record, or if there is none.
RunLog read_run_log(const std::filesystem::path& run);

/// The same of a branch, which begins with its parent's last points, so that its curve starts on the
/// parent's. Where the parent is gone, the branch alone.
RunLog read_run_log_with_parent(const std::filesystem::path& run);

}  // namespace mxtape
