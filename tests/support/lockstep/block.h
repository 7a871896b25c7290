#pragma once
// What lockstep.cpp runs and its neighbours look at: the block of threads that is running.
#include <ucontext.h>

#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "cuda_runtime.h"

namespace mxtape::lockstep::host {

inline constexpr unsigned warp = 32;
inline constexpr std::size_t stack_bytes = 128 << 10;
inline constexpr unsigned most_threads = 1024;
inline constexpr std::size_t most_shared = 232448;  // of a block, Hopper
/// Races are looked for by pages, each of one kind of memory: shared memory has whole ones.
inline constexpr std::size_t page_bytes = 1024;
static_assert(most_shared % page_bytes == 0);

struct AsyncCopy {
  void* to;
  const void* from;  // null: zeros
};

/// Of the compiler's own setjmp, which saves no more than where the code goes on: fibers jump a billion
/// times.
using Place = void* [5];

/// One thread of the block.
struct Fiber {
  enum class State { ready, at_warp_call, at_barrier, done } state = State::ready;
  ucontext_t start;  // used once; from then on jumps, which unlike contexts cost no system call
  Place home;        // where each thread that it is begins
  Place place;       // where the one that it is now goes on
  bool entered = false, started = false;
  std::unique_ptr<unsigned char[]> stack{new unsigned char[stack_bytes]};
  dim3 thread{0, 0, 0};
  const char* call = "";
  unsigned calls = 0;                         // of the warp; the parity picks the half of the exchange buffer
  std::deque<std::vector<AsyncCopy>> groups;  // of async copies; the last one is open
};

struct Block {
  std::vector<Fiber> fibers;
  std::vector<unsigned char> exchange;  // [threads][2][exchange_stride], by warp, half, lane
  alignas(page_bytes) unsigned char shared[most_shared];
  ucontext_t unused;
  Place scheduler;
  Fiber* running = nullptr;
  const std::function<void()>* thread = nullptr;
  std::exception_ptr failure;
  std::string kernel;
  unsigned barriers = 0;             // that all threads have passed
  std::vector<unsigned> warp_syncs;  // that each warp has passed since
};
extern Block* const the_block;  // never destroyed
inline Block& block() { return *the_block; }

/// The block's dynamic memory, and the program's static variables, as static shared memory is among them.
bool is_shared(const void* address);

}  // namespace mxtape::lockstep::host
