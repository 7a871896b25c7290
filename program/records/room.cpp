#include "program/records/room.h"

#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <limits>

#include "core/error.h"
#include "recipes/text/idle_keys.h"

namespace mxtape {
namespace fs = std::filesystem;
namespace {

/// The folder itself or, as it may not be there yet, the nearest one above it that is.
fs::path nearest_existing(const fs::path& folder) {
  fs::path path = fs::absolute(folder);
  for (std::error_code error; path.has_relative_path(); path = path.parent_path()) {
    const fs::file_status status = fs::symlink_status(path, error);
    require(fs::status_known(status), ExitCode::resource, "{}: the run's folder cannot be made: {}",
            folder.string(), error.message());
    if (fs::exists(status)) break;
  }
  return path;
}

}  // namespace

std::vector<fs::path> orphans_in(const fs::path& folder) {
  std::vector<fs::path> files;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error); !error && entry != fs::directory_iterator();
       entry.increment(error))
    if (entry->path().filename().string().find(".tmp.") != std::string::npos) files.push_back(entry->path());
  return files;
}

void fail_for_room(const fs::path& run, std::int64_t bytes, int reason) {
  std::string found = std::strerror(reason);
  if (reason == ENOSPC) found = bytes_text(double(free_bytes(run))) + " are free";
  if (reason == EFBIG) found = "reserved as one file, above the limit of a file's size (ulimit -f)";
  fail(ExitCode::resource, "{}: a checkpoint and the records need {}, {}; make room, or change train.out",
       run.string(), bytes_text(double(bytes)), found);
}

void require_writable(const fs::path& run) {
  for (const fs::path& folder : {run, run / "checkpoints"}) {
    const fs::path existing = nearest_existing(folder);
    std::error_code error;
    const fs::file_status status = fs::status(existing, error);
    require(fs::status_known(status), ExitCode::resource, "{}: {} cannot be looked at: {}", run.string(),
            existing.string(), error.message());
    require(fs::is_directory(status) && ::access(existing.c_str(), W_OK | X_OK) == 0, ExitCode::resource,
            "{}: {} is no folder that can be written; change train.out", run.string(), existing.string());
  }
  const fs::path lock = run / lock_name;  // another user's
  const bool usable = ::access(lock.c_str(), F_OK) != 0 || ::access(lock.c_str(), R_OK | W_OK) == 0;
  require(usable, ExitCode::resource, "{}: cannot be written: {}", lock.string(), std::strerror(errno));
}

std::int64_t free_bytes(const fs::path& run) {
  std::vector<fs::path> given_back{run / reserved_name};
  for (const fs::path& folder : {run, run / "checkpoints"}) {
    const auto orphans = orphans_in(folder);
    given_back.insert(given_back.end(), orphans.begin(), orphans.end());
  }
  constexpr std::int64_t block = 512;  // of st_blocks
  std::error_code unknown;             // then whoever writes will see
  const fs::space_info space = fs::space(nearest_existing(run), unknown);
  if (unknown || space.capacity == 0) return std::numeric_limits<std::int64_t>::max();
  auto bytes = std::int64_t(space.available);
  for (const fs::path& file : given_back)
    if (struct stat status{}; ::lstat(file.c_str(), &status) == 0) bytes += block * status.st_blocks;
  return bytes;
}

std::int64_t room_to_start(const MemoryPlan& plan, const Recipe& recipe) {
  return checkpoint_bytes(plan, recipe) + record_bytes(recipe);
}

double disk_needed(const MemoryPlan& plan, const Recipe& recipe) {
  const TrainConfig& t = recipe.train;
  double count = saves_meanwhile(t) ? double(std::min(t.keep, t.steps)) + 1 : 1;
  if (t.keep_every > 0) count += double(t.steps / t.keep_every);
  if (t.keep_best) ++count;
  if (t.on_divergence == OnDivergence::rollback) ++count;  // to go back to
  return double(checkpoint_bytes(plan, recipe)) * count + double(record_bytes(recipe));
}

void require_room(const fs::path& run, std::int64_t bytes) {
  struct rlimit limit {};
  if (::getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur < rlim_t(bytes))
    fail_for_room(run, bytes, EFBIG);
  if (free_bytes(run) < bytes) fail_for_room(run, bytes, ENOSPC);
}

}  // namespace mxtape
