#include "program/records/run_folder.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "core/error.h"
#include "core/files/atomic_file.h"
#include "core/files/descriptor.h"
#include "core/text/number.h"
#include "data/hdf5/seal.h"
#include "program/records/model_files.h"
#include "program/records/room.h"

namespace mxtape {
namespace fs = std::filesystem;
namespace {

constexpr std::string_view logs[] = {"metrics", "telemetry"};  ///< stems of <stem>.jsonl
constexpr std::string_view moving_name = "before.moving";      ///< an archive that is not whole yet

/// The step in <prefix><digits><ending> and nothing else: not in the name of a temporary or rejected file.
std::optional<std::int64_t> step_in(const fs::path& path, std::string_view prefix, std::string_view ending) {
  const std::string name = path.filename().string();
  if (!name.starts_with(prefix) || !name.ends_with(ending) || name.size() <= prefix.size() + ending.size())
    return {};
  const auto digits =
      std::string_view(name).substr(prefix.size(), name.size() - prefix.size() - ending.size());
  const auto step = number_of<std::int64_t>(digits);
  return step >= 0 ? step : std::nullopt;
}

void remove_orphans(const fs::path& folder) {
  for (const auto& file : orphans_in(folder)) fs::remove(file);
}

[[noreturn]] void fail_locked(const fs::path& run, std::string_view advice) {
  fail(ExitCode::resource, "{}: another mxtape process is training in this folder; {}", run.string(), advice);
}

}  // namespace

RunFolder::RunFolder(fs::path path) : RunPaths(std::move(path)) {
  require_writable(path_);
  const fs::path inner = path_ / "checkpoints";
  for (fs::path folder = inner; !folder.empty() && !fs::exists(folder); folder = folder.parent_path())
    made_.push_back(folder);
  struct stat status {};
  do {
    std::error_code error;
    fs::create_directories(inner, error);
    require(!error, ExitCode::resource, "{}: the run's folder cannot be made: {}", path_.string(),
            error.message());
    lock_ = FileLock(path_ / lock_name);
    // `mxtape check` may look just now, which is over in no time.
    for (int tries = 20; !lock_.take(); ::usleep(10'000))
      if (--tries == 0) fail_locked(path_, go_elsewhere);
  } while (::fstat(lock_.descriptor(), &status) == 0 &&
           status.st_nlink == 0);   // its owner removed it on its way out
  for (const auto& folder : made_)  // without its name, a power cut takes what is in it
    if (const int error = sync_folder(folder.has_parent_path() ? folder.parent_path() : "."))
      fail(ExitCode::resource, "{}: made, but its name cannot be synced: {}", folder.string(),
           std::strerror(error));
  // The lock is ours: whoever began these files is gone.
  release();
  remove_orphans(path_);
  finish_archive();
  remove_orphans(inner);
}

FileLock quiet_folder(const fs::path& run, std::string_view advice) {
  FileLock lock = FileLock::to_share(run / lock_name);
  if (!lock.share()) fail_locked(run, advice);
  return lock;
}

RunFolder::~RunFolder() {
  release();
  std::error_code stays;  // what is not empty, or cannot be removed
  if (!made_.empty() && fs::is_empty(made_.front(), stays) && fs::remove(made_.front(), stays)) {
    fs::remove(path_ / lock_name, stays);
    for (std::size_t i = 1; i < made_.size(); ++i) fs::remove(made_[i], stays);
  }
}

fs::path RunPaths::checkpoint(std::int64_t step) const {
  return path_ / "checkpoints" / fmt::format("step_{:08}.h5", step);
}

fs::path RunPaths::recipe_until(std::int64_t step) const {
  return path_ / fmt::format("recipe.until_step_{:08}.toml", step);
}

void RunFolder::reserve(std::int64_t bytes) {
  reserved_bytes_ = bytes;
  release();
  require_room(path_, bytes);
  const fs::path file = path_ / reserved_name;
  const int descriptor = retried([&] { return ::open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644); });
  require(descriptor >= 0, ExitCode::resource, "{}: cannot be written: {}", file.string(),
          std::strerror(errno));
  int reason = 0;
  do reason = ::posix_fallocate(descriptor, 0, bytes);
  while (reason == EINTR);
  ::close(descriptor);
  if (reason == 0 || reason == EOPNOTSUPP || reason == EINVAL) return;
  release();
  fail_for_room(path_, bytes, reason);
}

void RunFolder::release() const { ::unlink((path_ / reserved_name).c_str()); }

bool RunFolder::reserve_again() {
  try {
    reserve(reserved_bytes_);
    return true;
  } catch (const Error&) {
    return false;
  }
}

void RunFolder::follow() {
  struct stat ours {
  }, there{};
  const bool same = ::fstat(lock_.descriptor(), &ours) == 0 &&
                    ::stat((path_ / lock_name).c_str(), &there) == 0 && ours.st_ino == there.st_ino &&
                    ours.st_dev == there.st_dev;
  std::error_code error;
  if (!same && ours.st_nlink > 0) {  // it is called something else now
    const fs::path moved = fs::read_symlink(fmt::format("/proc/self/fd/{}", lock_.descriptor()), error);
    if (!error && fs::exists(moved, error)) path_ = moved.parent_path();
  }
  fs::create_directories(path_ / "checkpoints", error);
}

void RunFolder::retain(std::int64_t keep, const std::function<bool(std::int64_t)>& stays) const {
  const auto files = checkpoints();
  const auto kept = std::size_t(std::max<std::int64_t>(keep, 1));
  if (files.size() <= kept) return;
  verify_seal(files.front());
  for (std::size_t i = kept; i < files.size(); ++i)
    if (!stays || !stays(*step_of_checkpoint(files[i]))) fs::remove(files[i]);
}

void RunFolder::set_aside(const fs::path& file) const {
  fs::path target = file;
  target += ".rejected";
  for (int n = 2; fs::exists(target); ++n) target = fmt::format("{}.rejected.{}", file.string(), n);
  fs::rename(file, target);
}

fs::path RunFolder::archive() const {
  const fs::path target = free_archive(), moving = path_ / moving_name;
  fs::create_directory(moving);
  for (const auto& [step, file] : earlier_recipes()) fs::rename(file, moving / file.filename());
  for (const auto& file : kept_records()) fs::rename(file, moving / file.filename());
  for (const auto& file : model_files_in(path_)) fs::rename(path_ / file, moving / file);
  // The checkpoints last: while they are here, no run starts over by accident.
  for (const auto& name : {"recipe.toml", "device.txt", "precision.txt", "parent.json", "metrics.jsonl",
                           "telemetry.jsonl", "events.out.tfevents.mxtape", "checkpoints"})
    if (fs::exists(path_ / name)) fs::rename(path_ / name, moving / name);
  fs::rename(moving, target);
  fs::create_directory(path_ / "checkpoints");
  return target;
}

fs::path RunFolder::free_archive() const {
  for (int n = 1;; ++n)
    if (const fs::path folder = path_ / fmt::format("before-{}", n); !fs::exists(folder)) return folder;
}

void RunFolder::finish_archive() const {
  const fs::path moving = path_ / moving_name;
  if (!fs::exists(moving)) return;
  if (fs::exists(moving / "checkpoints")) return fs::rename(moving, free_archive());
  for (const auto& entry : fs::directory_iterator(moving))
    fs::rename(entry.path(), path_ / entry.path().filename());
  fs::remove(moving);
}

std::map<std::int64_t, fs::path, std::greater<>> RunPaths::earlier_recipes() const {
  std::map<std::int64_t, fs::path, std::greater<>> files;
  for (const auto& entry : fs::directory_iterator(path_))
    if (const auto step = step_in(entry.path(), "recipe.until_step_", ".toml")) files[*step] = entry.path();
  return files;
}

std::vector<fs::path> RunPaths::kept_records() const {
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(path_))
    for (const std::string_view log : logs)
      if (entry.path().filename() == fmt::format("{}.broken.txt", log) ||
          step_in(entry.path(), fmt::format("{}.rollback_", log), ".jsonl"))
        files.push_back(entry.path());
  return files;
}

std::optional<std::int64_t> step_of_checkpoint(const fs::path& file) { return step_in(file, "step_", ".h5"); }

std::vector<fs::path> RunPaths::checkpoints() const {
  std::vector<fs::path> files;
  const fs::path folder = path_ / "checkpoints";
  std::error_code error;
  // A folder that cannot be listed is not an empty one: the run would begin again at step 0.
  for (fs::directory_iterator entry(folder, error); !error && entry != fs::directory_iterator();
       entry.increment(error))
    if (step_of_checkpoint(entry->path())) files.push_back(entry->path());
  const bool absent = error == std::errc::no_such_file_or_directory || error == std::errc::not_a_directory;
  require(!error || absent, ExitCode::resource, "{}: the checkpoints cannot be listed: {}", folder.string(),
          error.message());
  // Zero-padded steps sort as text; a step of more digits is later.
  std::sort(files.begin(), files.end(), [](const fs::path& a, const fs::path& b) {
    const std::string left = a.filename().string(), right = b.filename().string();
    return left.size() != right.size() ? left.size() > right.size() : left > right;
  });
  return files;
}

}  // namespace mxtape
