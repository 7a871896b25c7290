#pragma once
#include <cstdint>

namespace mxtape {

/// Threads used by parallel_for, the calling one included. Set before the first parallel_for or between two.
void set_threads(int count);
int threads();

namespace detail {
using RangeBody = void (*)(const void* context, std::int64_t begin, std::int64_t end);
void run_ranges(std::int64_t count, std::int64_t grain, RangeBody body, const void* context);
}  // namespace detail

/// Calls body(begin, end) for the ranges [0, grain), [grain, 2 grain) ... of [0, count), on all threads.
/// The cuts depend on count and grain only, never on the number of threads: a body whose ranges do not share
/// outputs, or that sums each range on its own, gives the same bits on any machine. Returns when all are
/// done; the first exception of a body is thrown again here.
template <class Body>
void parallel_for(std::int64_t count, std::int64_t grain, const Body& body) {
  detail::run_ranges(
      count, grain,
      [](const void* context, std::int64_t begin, std::int64_t end) {
        (*static_cast<const Body*>(context))(begin, end);
      },
      &body);
}

}  // namespace mxtape
