#pragma once
#include <cstddef>

namespace mxtape::lockstep::host {

/// Races: two threads of a kernel use the same byte, one of them writes, and nothing orders the two. What
/// orders is block_sync() for the threads of a block and warp_sync() for those of a warp. Shuffles, ballots
/// and matrix products do not (CUDA C++ Programming Guide, warp shuffle functions), and nothing orders the
/// blocks of a launch. Looked for in shared and in global memory, byte by byte; and shared memory that a
/// block reads must have been written by it. In the order in which fibers run such code can give the right
/// result.
///
/// Loads and stores of kernels are compiled to calls (-fsanitize=thread) that races.cpp defines in place of
/// the sanitizer's library; a build that has another sanitizer has no calls, and finds nothing.
///
/// MXTAPE_LOCKSTEP=trusting looks for none: for whole steps, whose kernels have tests of their own.
bool finds_races();

/// By the scheduler: a launch begins; a block of it, `index` in the grid, does; a thread of block() runs, or
/// waits again.
void watch_launch();
void watch_block(std::size_t index);
void watch_thread();
void watch_nothing();
/// Throws Error that says what the running launch did, once there was a race.
void require_no_race();

/// The running thread reads or writes.
void note_read(const void* address, std::size_t bytes);
void note_write(const void* address, std::size_t bytes);

/// For stand-ins for instructions: while one lives, what the compiler reports is their own doing, and nothing
/// is noted but by `note_read` and `note_write` of this object.
class StandIn {
 public:
  StandIn();
  ~StandIn();
  StandIn(const StandIn&) = delete;
  StandIn& operator=(const StandIn&) = delete;
  void note_read(const void* address, std::size_t bytes) const;
  void note_write(const void* address, std::size_t bytes) const;

 private:
  bool watched_;
};

}  // namespace mxtape::lockstep::host
