#include "core/parallel.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <csignal>
#include <exception>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "core/error.h"
#include "core/threads/affinity.h"

namespace mxtape {
namespace {

thread_local bool inside = false;

void pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

/// A team of workers, one job at a time. Whoever is awake claims the next range; the job is done when its
/// ranges are, so a worker that another process keeps off its core delays at most the range it holds.
class Team {
 public:
  explicit Team(int count) {
    // Signals are the main thread's: it has a stack of its own for them (program/run/stop_signals.cpp).
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    std::string fault;
    try {
      for (int i = 1; i < count; ++i) workers_.emplace_back([this] { work(); });
    } catch (const std::exception& e) {  // a limit of processes (ulimit -u) or of memory
      fault = fmt::format(
          "threads: the {}. of {} cannot be started: {}; want fewer (--compute.threads), or a "
          "higher limit of processes (ulimit -u)",
          workers_.size() + 2, count, e.what());
    }
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    if (fault.empty()) return;
    stop();  // no destructor runs for an object that was never made
    fail(ExitCode::resource, "{}", fault);
  }
  ~Team() { stop(); }
  Team(const Team&) = delete;

  int size() const { return int(workers_.size()) + 1; }

  void run(std::int64_t count, std::int64_t grain, detail::RangeBody body, const void* context) {
    std::lock_guard one_job(job_mutex_);
    const std::int64_t ranges = (count + grain - 1) / grain;
    require(ranges < std::int64_t(closed), "parallel_for: {} ranges, want fewer than {}", ranges, closed);
    // Closed while the job's fields change: a late worker cannot claim with the old ticket.
    ticket_.store(ticket(++generation_, closed));
    count_ = count, grain_ = grain, body_ = body, context_ = context;
    ranges_.store(std::uint32_t(ranges));
    unfinished_.store(ranges);
    failed_.store(false);
    ticket_.store(ticket(generation_, 0));
    if (sleepers_.load() > 0) {
      std::lock_guard lock(mutex_);
      wake_.notify_all();
    }
    take_ranges(generation_);
    // The last ranges may be with workers that are off their cores: after a while leave them this one.
    for (int i = 0; unfinished_.load(std::memory_order_acquire) != 0; ++i)
      i < spins ? pause() : std::this_thread::yield();
    if (failed_.load()) std::rethrow_exception(std::exchange(error_, nullptr));
  }

 private:
  void stop() {
    {
      std::lock_guard lock(mutex_);
      stop_ = true;
      ticket_.store(ticket(++generation_, closed));
    }
    wake_.notify_all();
    for (auto& w : workers_) w.join();
  }

  static constexpr std::uint32_t closed = 0xffffffff;
  /// A training step has a few hundred short jobs microseconds apart, so look for a while before sleeping.
  static constexpr int spins = 4000;

  /// Which job, and its next range: claimed together, by one compare-and-swap.
  static std::uint64_t ticket(std::uint32_t generation, std::uint32_t range) {
    return std::uint64_t{generation} << 32 | range;
  }

  void take_ranges(std::uint32_t generation) {
    inside = true;
    std::uint64_t now = ticket_.load();
    while (std::uint32_t(now >> 32) == generation && std::uint32_t(now) < ranges_.load()) {
      if (!ticket_.compare_exchange_weak(now, now + 1)) continue;
      run_range(std::int64_t(std::uint32_t(now)) * grain_);
      now = ticket_.load();
    }
    inside = false;
  }

  void run_range(std::int64_t begin) {
    try {
      if (!failed_.load(std::memory_order_relaxed)) body_(context_, begin, std::min(begin + grain_, count_));
    } catch (...) {
      std::lock_guard lock(mutex_);
      if (!failed_.exchange(true)) error_ = std::current_exception();
    }
    unfinished_.fetch_sub(1, std::memory_order_acq_rel);
  }

  void work() {
    const auto generation_now = [this] { return std::uint32_t(ticket_.load() >> 32); };
    for (std::uint32_t seen = 0;;) {
      for (int i = 0; i < spins && generation_now() == seen; ++i) pause();
      if (generation_now() == seen) {
        std::unique_lock lock(mutex_);
        sleepers_.fetch_add(1);
        wake_.wait(lock, [&] { return generation_now() != seen; });
        sleepers_.fetch_sub(1);
      }
      seen = generation_now();
      if (stop_.load()) return;
      // A ticket still closed will open in a moment; if its job ends before we look again, nothing is lost.
      while (std::uint32_t(ticket_.load()) == closed && generation_now() == seen && !stop_.load()) pause();
      take_ranges(seen);
    }
  }

  std::vector<std::thread> workers_;
  std::mutex job_mutex_, mutex_;
  std::condition_variable wake_;
  std::atomic<std::uint64_t> ticket_{0};
  std::atomic<std::uint32_t> ranges_{0};
  std::atomic<std::int64_t> unfinished_{0};
  std::atomic<int> sleepers_{0};
  std::atomic<bool> failed_{false}, stop_{false};
  std::uint32_t generation_ = 0;
  // Written while the ticket is closed, read by who holds a range.
  std::int64_t count_ = 0, grain_ = 1;
  detail::RangeBody body_ = nullptr;
  const void* context_ = nullptr;
  std::exception_ptr error_;
};

std::unique_ptr<Team>& team() {
  static std::unique_ptr<Team> instance;
  return instance;
}

}  // namespace

void set_threads(int count) {
  require(count >= 1 && count <= 1024, ExitCode::usage, "threads: {}; want 1 to 1024", count);
  if (!team() || team()->size() != count) team() = std::make_unique<Team>(count);
}

int threads() {
  static std::once_flag first;  // ranks that are threads of one process may all be the first to ask
  std::call_once(first, [] {
    if (!team()) set_threads(std::clamp(allowed_processors(), 1, 1024));
  });
  return team()->size();
}

namespace detail {
void run_ranges(std::int64_t count, std::int64_t grain, RangeBody body, const void* context) {
  if (count <= 0) return;
  grain = std::max<std::int64_t>(grain, 1);
  if (inside || count <= grain || threads() == 1) {
    for (std::int64_t begin = 0; begin < count; begin += grain)
      body(context, begin, std::min(begin + grain, count));
    return;
  }
  team()->run(count, grain, body, context);
}
}  // namespace detail

}  // namespace mxtape
