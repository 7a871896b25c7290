#pragma once
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "core/memory/layout.h"
#include "core/memory/pool.h"

namespace mxtape {

/// Memory for work that repeats. The first run of a name takes its memory from the pool and is watched; then
/// every request has its place in one block, and the k-th request of each later run has the same address.
/// What outlives the run, its results, is the pool's, so that the next run does not overwrite it. A run that
/// asks for something else, or keeps what it used to let go, gets that from the pool and is planned anew:
/// memory in use is never handed out twice. Outside of runs all requests go to the pool.
///
/// For devices that one thread feeds: requests from several threads come in another order each time.
class Arena {
 public:
  explicit Arena(std::shared_ptr<Pool>);
  ~Arena();

  std::shared_ptr<void> take(std::int64_t bytes);

  /// What a run does that departs from its plan.
  enum class Departure { plan_anew, error };
  /// Does `work`. True if it followed a plan from its first request to its last. Where departures are errors
  /// the run must have a plan, and asks the pool for nothing. Throws what `work` throws.
  bool run(const std::string& name, const std::function<void()>& work,
           Departure departure = Departure::plan_anew);

  /// Keeps the block and the results of the last run until forget(): somebody has written down their
  /// addresses.
  void pin(const std::string& name);
  /// Drops the plan, the block and the results that were kept.
  void forget(const std::string& name);
  /// Gives blocks that are not pinned back to the pool; the next run takes one again.
  void trim();

  struct Report {
    std::int64_t requests = 0;   ///< of a run
    std::int64_t bytes = 0;      ///< of the planned block
    std::int64_t most_live = 0;  ///< of the pieces in it: no block can be smaller
    std::int64_t plans = 0;      ///< made so far: more than 1 tells that runs differ
  };
  Report report(const std::string& name) const;

 private:
  struct Run;    // one name
  struct Trace;  // what a run asked for

  std::shared_ptr<Pool> pool_;
  std::map<std::string, std::unique_ptr<Run>> runs_;
  Run* running_ = nullptr;
};

}  // namespace mxtape
