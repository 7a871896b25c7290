#pragma once
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string_view>
#include <vector>

#include "program/records/file_lock.h"

namespace mxtape {

/// Where what of a run lies: recipe.toml, earlier ones as recipe.until_step_<8 digits>.toml, device.txt,
/// precision.txt, parent.json, metrics.jsonl and telemetry.jsonl, each with <stem>.rollback_<n>.jsonl and
/// <stem>.broken.txt, events.out.tfevents.mxtape and checkpoints/step_<8 digits>.h5. After an import also the
/// files of program/records/model_files.h. Nothing need be there, and nothing is changed.
class RunPaths {
 public:
  explicit RunPaths(std::filesystem::path path) : path_(std::move(path)) {}

  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path recipe() const { return path_ / "recipe.toml"; }
  /// The recipe of the steps up to `step`, where a later one differs.
  std::filesystem::path recipe_until(std::int64_t step) const;
  /// Those that are there, by their step, the last one first.
  std::map<std::int64_t, std::filesystem::path, std::greater<>> earlier_recipes() const;
  std::filesystem::path device() const { return path_ / "device.txt"; }
  /// Of a branch, or a run with train.init: where it came from.
  std::filesystem::path parent() const { return path_ / "parent.json"; }
  /// The precision that each phase was seen to run in.
  std::filesystem::path precision() const { return path_ / "precision.txt"; }
  std::filesystem::path metrics() const { return path_ / "metrics.jsonl"; }
  /// What roundings cost, if the recipe's telemetry is on.
  std::filesystem::path telemetry() const { return path_ / "telemetry.jsonl"; }
  std::filesystem::path events() const { return path_ / "events.out.tfevents.mxtape"; }
  std::filesystem::path checkpoint(std::int64_t step) const;
  /// Newest first. Throws Error(resource) if they cannot be listed.
  std::vector<std::filesystem::path> checkpoints() const;
  /// What was taken out of metrics.jsonl and telemetry.jsonl: <stem>.rollback_<n>.jsonl, the records of the
  /// steps that a rollback took back, and <stem>.broken.txt, lines that were no records.
  std::vector<std::filesystem::path> kept_records() const;

 protected:
  std::filesystem::path path_;
};

/// A run's folder, locked while an object lives, so that no second process writes there.
class RunFolder : public RunPaths {
 public:
  /// Makes the folder. The destructor takes away what was made if nothing came into it. Throws
  /// Error(resource) if that fails or another run holds it.
  explicit RunFolder(std::filesystem::path);
  ~RunFolder();

  /// Takes room on the disk for the next checkpoint and the records, in a file `reserved`. Throws
  /// Error(resource) if it is not there: better before a run than at its end.
  void reserve(std::int64_t bytes);
  /// Gives the room back: just before the checkpoint takes it.
  void release() const;
  /// The same room for the one after it; false if it is not there.
  bool reserve_again();
  /// Finds the folder again if it was moved, and makes it again if it was deleted: a model is never lost to
  /// that.
  void follow();

  /// Deletes all checkpoints but the newest `keep` (at least 1) and those whose step `stays`, after the
  /// newest has passed its content hash.
  void retain(std::int64_t keep, const std::function<bool(std::int64_t)>& stays = {}) const;
  /// Renames a checkpoint that does not verify to <name>.rejected, so that its step can be written again.
  void set_aside(const std::filesystem::path& checkpoint) const;
  /// Renames everything of an earlier run into <path>/before-<n> and returns that folder.
  std::filesystem::path archive() const;

 private:
  /// The first before-<n> that is not there.
  std::filesystem::path free_archive() const;
  /// What archive() had begun when its process was killed: finished if the checkpoints had gone, else undone,
  /// so that the records stay with them.
  void finish_archive() const;

  FileLock lock_;
  std::int64_t reserved_bytes_ = 0;
  std::vector<std::filesystem::path> made_;  ///< folders that were not there, innermost first
};

/// What is read from a run's folder while this lock of it lives belongs together: it is shared. Throws
/// Error(resource) if a process trains there, with the `advice`. Nothing is made.
FileLock quiet_folder(const std::filesystem::path& run, std::string_view advice);
/// The advice to a run.
inline constexpr std::string_view go_elsewhere = "choose another name or train.out";

/// The step in the name of a checkpoint of a run, step_<digits>.h5; none for other names.
std::optional<std::int64_t> step_of_checkpoint(const std::filesystem::path&);

inline std::vector<std::filesystem::path> list_checkpoints(const std::filesystem::path& run) {
  return RunPaths(run).checkpoints();
}

}  // namespace mxtape
