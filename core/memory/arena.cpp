#include "core/memory/arena.h"

#include <algorithm>
#include <utility>

#include "core/error.h"

namespace mxtape {

/// What one run asked for, and when it gave it back. Shared with the memory's owners, who note its end.
struct Arena::Trace {
  std::mutex mutex;
  std::vector<Lifetime> requests;  // in events; those that outlived the run never die
  std::int64_t now = 0;
  bool open = true;  // the run goes on

  std::size_t note_birth(std::int64_t bytes) {
    std::lock_guard lock(mutex);
    requests.push_back({bytes, now++, Lifetime::never});
    return requests.size() - 1;
  }
  void note_death(std::size_t request) {
    std::lock_guard lock(mutex);
    if (open) requests[request].death = now++;
  }
  void close() {
    std::lock_guard lock(mutex);
    open = false;
  }
};

namespace {

/// A block of memory, and which parts of it are in use.
struct Region {
  std::shared_ptr<void> memory;
  std::mutex mutex;
  std::map<std::int64_t, std::int64_t> in_use;  // begin, end

  /// False if a part of it is in use.
  bool claim(std::int64_t begin, std::int64_t end) {
    std::lock_guard lock(mutex);
    const auto next = in_use.lower_bound(begin);
    if (next != in_use.end() && next->first < end) return false;
    if (next != in_use.begin() && std::prev(next)->second > begin) return false;
    in_use.emplace_hint(next, begin, end);
    return true;
  }
  void give_back(std::int64_t begin) {
    std::lock_guard lock(mutex);
    in_use.erase(begin);
  }
  bool idle() {
    std::lock_guard lock(mutex);
    return in_use.empty();
  }
};

}  // namespace

struct Arena::Run {
  struct Piece {
    std::int64_t bytes;
    std::int64_t offset;  // in the block; -1: a result
  };
  std::string name;
  std::vector<Piece> plan;
  std::int64_t block_bytes = 0, most_live = 0, plans = 0;
  std::shared_ptr<Region> block;

  std::shared_ptr<Trace> trace;                          // of the run under way, or the last one
  std::map<std::size_t, std::shared_ptr<void>> results;  // taken before the run, by request
  std::vector<std::weak_ptr<void>> last_results;
  std::vector<std::shared_ptr<void>> pinned_results;
  Departure departure = Departure::plan_anew;
  bool follows = false, pinned = false;

  void prepare(Pool& pool) {
    trace = std::make_shared<Trace>();
    last_results.clear();
    follows = plans > 0;
    require(follows || departure == Departure::plan_anew, "repeat: '{}' has no plan yet", name);
    if (!follows) return;
    if (!block && block_bytes > 0) {
      pool.trim();  // the pieces of the first run, which the block stands for now
      block = std::make_shared<Region>();
      block->memory = pool.take(block_bytes);
    }
    for (std::size_t i = 0; i < plan.size(); ++i)
      if (plan[i].offset < 0) results[i] = pool.take(plan[i].bytes);
  }

  /// The next request's place in the plan; nothing if it has none, or the place is taken.
  std::shared_ptr<void> take_planned(std::int64_t bytes) {
    const std::size_t request = trace->requests.size();
    if (request >= plan.size() || plan[request].bytes != bytes) return nullptr;
    const std::int64_t offset = plan[request].offset;
    if (offset < 0) return own(results.extract(request).mapped(), bytes);
    if (!block->claim(offset, offset + bytes)) return nullptr;
    return {static_cast<char*>(block->memory.get()) + offset,
            [block = block, offset, trace = trace, number = trace->note_birth(bytes)](void*) {
              trace->note_death(number);
              block->give_back(offset);
            }};
  }
  std::shared_ptr<void> own(std::shared_ptr<void> memory, std::int64_t bytes) {
    void* const address = memory.get();
    const std::size_t number = trace->note_birth(bytes);
    // Given back by hand: a deleter itself stays as long as someone watches.
    std::shared_ptr<void> watched{address,
                                  [memory = std::move(memory), trace = trace, number](void*) mutable {
                                    trace->note_death(number);
                                    memory.reset();
                                  }};
    last_results.push_back(watched);
    return watched;
  }

  /// False if something that used to outlive the run did not: its memory may have gone to others since.
  bool results_live() const {
    return std::ranges::none_of(last_results, [](const auto& result) { return result.expired(); });
  }

  void make_plan() {
    std::vector<Lifetime> in_block;
    for (const Lifetime& request : trace->requests)
      if (request.death != Lifetime::never) in_block.push_back(request);
    const MemoryLayout layout = plan_layout(in_block);
    plan.clear();
    std::size_t next = 0;
    for (const Lifetime& request : trace->requests)
      plan.push_back({request.bytes, request.death == Lifetime::never ? -1 : layout.offsets[next++]});
    block_bytes = layout.bytes;
    most_live = most_live_bytes(in_block);
    block = nullptr;
    ++plans;
  }
};

Arena::Arena(std::shared_ptr<Pool> pool) : pool_(std::move(pool)) {}
Arena::~Arena() = default;

std::shared_ptr<void> Arena::take(std::int64_t bytes) {
  if (!running_) return pool_->take(bytes);
  Run& run = *running_;
  if (run.follows) {
    if (auto planned = run.take_planned(bytes)) return planned;
    const std::size_t request = run.trace->requests.size();
    require(run.departure == Departure::plan_anew,
            "repeat: '{}': request {} is for {} bytes; the runs before had {} there. Work that repeats must "
            "make the same calls each time",
            run.name, request, bytes,
            request < run.plan.size() ? fmt::format("{}", run.plan[request].bytes) : "none");
    run.follows = false;
  }
  return run.own(pool_->take(bytes), bytes);
}

bool Arena::run(const std::string& name, const std::function<void()>& work, Departure departure) {
  require(!running_, "repeat: '{}' inside of '{}'; want one after the other", name,
          running_ ? running_->name : "");
  auto& slot = runs_[name];
  if (!slot) slot = std::make_unique<Run>();
  Run& run = *slot;
  run.name = name;
  run.departure = departure;
  run.prepare(*pool_);
  struct Running {
    Run*& running;
    ~Running() {
      running->trace->close();
      running->results.clear();
      running = nullptr;
    }
  };
  {
    running_ = &run;
    const Running until_done{running_};
    work();
  }
  const bool followed = run.follows && run.trace->requests.size() == run.plan.size() &&
                        (!run.block || run.block->idle()) && run.results_live();
  require(followed || departure == Departure::plan_anew,
          "repeat: '{}' made {} requests and kept some that it used to give back, or gave back what it used "
          "to keep, or the runs before made {}",
          name, run.trace->requests.size(), run.plan.size());
  if (!followed) run.make_plan();
  return followed;
}

void Arena::pin(const std::string& name) {
  const auto found = runs_.find(name);
  require(found != runs_.end(), "arena: nothing called '{}' was run", name);
  Run& run = *found->second;
  run.pinned = true;
  for (const auto& result : run.last_results)
    if (auto living = result.lock()) run.pinned_results.push_back(std::move(living));
}

void Arena::forget(const std::string& name) { runs_.erase(name); }

void Arena::trim() {
  for (auto& [name, run] : runs_)
    if (!run->pinned) run->block = nullptr;
}

Arena::Report Arena::report(const std::string& name) const {
  const auto found = runs_.find(name);
  if (found == runs_.end()) return {};
  const Run& run = *found->second;
  return {std::int64_t(run.plan.size()), run.block_bytes, run.most_live, run.plans};
}

}  // namespace mxtape
