#include "program/sweep/sweep_folder.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "core/error.h"
#include "core/files/atomic_file.h"
#include "program/run/stop_signals.h"
#include "program/show/output.h"

namespace mxtape {
namespace fs = std::filesystem;
namespace {

int open_lock(const fs::path& file, int flags) {
  const int lock = ::open(file.c_str(), O_RDWR | O_CREAT | flags, 0644);
  require(lock >= 0, ExitCode::resource, "{}: cannot be written: {}", file.string(), std::strerror(errno));
  return lock;
}

bool try_lock(int lock) { return ::flock(lock, LOCK_EX | LOCK_NB) == 0; }

}  // namespace

SweepFolder::SweepFolder(const SweepPlan& plan, std::FILE* out) {
  std::error_code error;
  fs::create_directories(plan.out, error);
  require(!error, ExitCode::resource, "{}: the sweep's folder cannot be made: {}", plan.out.string(),
          error.message());
  lock_ = open_lock(plan.out / ".lock", O_CLOEXEC);
  if (!try_lock(lock_)) {
    ::close(lock_);
    fail(ExitCode::resource, "{}: another sweep is at work in this folder; want another --out",
         plan.out.string());
  }
  // Children keep it open: it is free when the last run of a killed sweep has ended.
  runs_lock_ = open_lock(plan.out / ".runs", 0);
  const bool free = try_lock(runs_lock_);
  if (!free) say(out, "waiting for runs of a sweep that was killed: they save and end\n");
  while (!free && !try_lock(runs_lock_)) {
    if (StopSignals::received()) {
      ::close(runs_lock_);
      ::close(lock_);
      fail(ExitCode::interrupted, "stopped while waiting for the runs of an earlier sweep");
    }
    ::usleep(50'000);
  }
  for (const SweepRun& run : plan.runs)
    if (run.seed == plan.sweep.seeds.front())
      write_atomically(recipe_file(plan, run), to_toml(plan.sweep.arms[run.arm].recipe));
}

SweepFolder::~SweepFolder() {
  ::close(runs_lock_);
  ::close(lock_);
}

fs::path recipe_file(const SweepPlan& plan, const SweepRun& run) {
  return plan.out / "recipes" / (plan.sweep.arms[run.arm].name + ".toml");
}

}  // namespace mxtape
