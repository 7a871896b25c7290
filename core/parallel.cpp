#include "core/parallel.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <exception>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "core/error.h"

namespace mxtape {
namespace {

thread_local bool inside = false;

/// A team of sleeping workers. One job at a time; ranges are handed out by an atomic counter.
class Team {
 public:
  explicit Team(int count) {
    for (int i = 1; i < count; ++i) workers_.emplace_back([this] { work(); });
  }
  ~Team() {
    {
      std::lock_guard lock(mutex_);
      stop_ = true;
      ++generation_;
    }
    wake_.notify_all();
    for (auto& w : workers_) w.join();
  }
  Team(const Team&) = delete;
  Team& operator=(const Team&) = delete;

  int size() const { return int(workers_.size()) + 1; }

  void run(std::int64_t count, std::int64_t grain, detail::RangeBody body, const void* context) {
    std::lock_guard one_job(job_mutex_);
    count_ = count, grain_ = grain, body_ = body, context_ = context;
    next_.store(0, std::memory_order_relaxed);
    busy_.store(int(workers_.size()), std::memory_order_relaxed);
    error_ = nullptr;
    {
      std::lock_guard lock(mutex_);
      generation_.fetch_add(1, std::memory_order_release);
    }
    wake_.notify_all();
    take_ranges();
    while (busy_.load(std::memory_order_acquire) != 0) pause();
    if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
  }

 private:
  static void pause() {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
  }

  void take_ranges() {
    inside = true;
    try {
      for (;;) {
        const std::int64_t begin = next_.fetch_add(grain_, std::memory_order_relaxed);
        if (begin >= count_) break;
        body_(context_, begin, std::min(begin + grain_, count_));
      }
    } catch (...) {
      std::lock_guard lock(mutex_);
      if (!error_) error_ = std::current_exception();
      next_.store(count_, std::memory_order_relaxed);
    }
    inside = false;
  }

  void work() {
    std::uint64_t seen = 0;
    for (;;) {
      // A training step has a few hundred short regions microseconds apart, so look for a while before
      // sleeping.
      constexpr int spins = 4000;
      for (int i = 0; i < spins && generation_.load(std::memory_order_acquire) == seen; ++i) pause();
      if (generation_.load(std::memory_order_acquire) == seen) {
        std::unique_lock lock(mutex_);
        wake_.wait(lock, [&] { return generation_.load(std::memory_order_relaxed) != seen; });
      }
      ++seen;
      if (stop_) return;
      take_ranges();
      busy_.fetch_sub(1, std::memory_order_release);
    }
  }

  std::vector<std::thread> workers_;
  std::mutex job_mutex_, mutex_;
  std::condition_variable wake_;
  std::atomic<std::uint64_t> generation_{0};
  std::atomic<std::int64_t> next_{0};
  std::atomic<int> busy_{0};
  std::int64_t count_ = 0, grain_ = 1;
  detail::RangeBody body_ = nullptr;
  const void* context_ = nullptr;
  std::exception_ptr error_;
  bool stop_ = false;
};

std::unique_ptr<Team>& team() {
  static std::unique_ptr<Team> instance;
  return instance;
}

}  // namespace

void set_threads(int count) {
  require(count >= 1 && count <= 1024, ExitCode::usage, "threads: {}; want 1 to 1024", count);
  if (!team() || team()->size() != count) {
    team().reset();
    team() = std::make_unique<Team>(count);
  }
}

int threads() {
  if (!team()) set_threads(int(std::clamp(std::thread::hardware_concurrency(), 1u, 1024u)));
  return team()->size();
}

bool in_parallel() { return inside; }

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
