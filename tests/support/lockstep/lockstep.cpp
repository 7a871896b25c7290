#include "tests/support/lockstep/lockstep.h"

#include <setjmp.h>
#include <ucontext.h>

#include <cstdlib>
#include <cstring>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/error.h"
#include "kernels/cuda/device.cuh"

LockstepPlace lockstep_place;
extern char __data_start, _end;  // of the program's static variables, by the linker

namespace mxtape::lockstep::host {
namespace {

constexpr int warp = 32;
constexpr std::size_t stack_bytes = 128 << 10;
constexpr unsigned most_threads = 1024;
constexpr std::size_t most_shared = 232448;  // of a block, Hopper

struct AsyncCopy {
  void* to;
  const void* from;  // null: zeros
};

/// One thread of the block that is running.
struct Fiber {
  enum class State { ready, at_warp_call, at_barrier, done } state = State::ready;
  ucontext_t start;  // used once; from then on jumps, which unlike contexts cost no system call
  jmp_buf place;
  bool started = false;
  std::unique_ptr<unsigned char[]> stack{new unsigned char[stack_bytes]};
  dim3 thread{0, 0, 0};
  const char* call = "";
  unsigned calls = 0;                         // of the warp; the parity picks the half of the exchange buffer
  std::deque<std::vector<AsyncCopy>> groups;  // of async copies; the last one is open
};

struct Block {
  std::vector<Fiber> fibers;
  std::vector<unsigned char> exchange;  // [threads][2][exchange_stride], by warp, half, lane
  alignas(128) unsigned char shared[most_shared];
  ucontext_t unused;
  jmp_buf scheduler;
  Fiber* running = nullptr;
  const std::function<void()>* thread = nullptr;
  std::exception_ptr failure;
  std::string kernel;
};
Block& block() {
  static const auto instance = std::make_unique<Block>();
  return *instance;
}

void enter() {
  Block& b = block();
  try {
    (*b.thread)();
  } catch (...) {
    if (!b.failure) b.failure = std::current_exception();
  }
  b.running->state = Fiber::State::done;
  _longjmp(b.scheduler, 1);
}

/// Lets a thread run up to its next call that waits.
void resume(Fiber& f) {
  Block& b = block();
  b.running = &f;
  lockstep_place.thread = f.thread;
  if (_setjmp(b.scheduler)) return;
  if (std::exchange(f.started, true)) _longjmp(f.place, 1);
  swapcontext(&b.unused, &f.start);
}

void wait_as(Fiber::State state) {
  Block& b = block();
  Fiber& me = *b.running;
  me.state = state;
  if (!_setjmp(me.place)) _longjmp(b.scheduler, 1);
}

unsigned char* exchange_of(std::size_t warp_index, unsigned half) {
  return block().exchange.data() + (warp_index * 2 + half) * warp * exchange_stride;
}

/// Lets a warp go on whose lanes have all come to the same call. True if one was waiting.
bool release_warp(std::size_t first) {
  Block& b = block();
  const Fiber& lead = b.fibers[first];
  for (std::size_t i = first; i < first + warp; ++i)
    if (b.fibers[i].state != Fiber::State::at_warp_call) return false;
  for (std::size_t i = first; i < first + warp; ++i)
    require(std::string_view(b.fibers[i].call) == lead.call,
            "lockstep: {}: lane 0 of warp {} is at {}, lane {} at {}", b.kernel, first / warp, lead.call,
            i - first, b.fibers[i].call);
  for (std::size_t i = first; i < first + warp; ++i) b.fibers[i].state = Fiber::State::ready;
  return true;
}

bool release_block() {
  Block& b = block();
  for (const Fiber& f : b.fibers)
    if (f.state != Fiber::State::at_barrier) return false;
  for (Fiber& f : b.fibers) f.state = Fiber::State::ready;
  return true;
}

void run_block(unsigned threads, bool descending) {
  Block& b = block();
  for (unsigned t = 0; t < threads; ++t) {
    Fiber& f = b.fibers[t];
    f.state = Fiber::State::ready;
    f.thread = {t, 0, 0};
    f.calls = 0;
    f.groups.assign(1, {});
    f.started = false;
    getcontext(&f.start);
    f.start.uc_stack.ss_sp = f.stack.get();
    f.start.uc_stack.ss_size = stack_bytes;
    f.start.uc_link = nullptr;
    makecontext(&f.start, enter, 0);
  }
  for (;;) {
    bool progress = false, done = true;
    for (unsigned i = 0; i < threads; ++i) {
      Fiber& f = b.fibers[descending ? threads - 1 - i : i];
      if (f.state != Fiber::State::ready) continue;
      progress = true;
      resume(f);
      if (b.failure) std::rethrow_exception(std::exchange(b.failure, nullptr));
    }
    for (std::size_t w = 0; w < threads; w += warp) progress |= release_warp(w);
    progress |= release_block();
    for (const Fiber& f : b.fibers) done &= f.state == Fiber::State::done;
    if (done) return;
    require(progress,
            "lockstep: {}: threads of block ({}, {}, {}) wait for others that have ended or wait elsewhere",
            b.kernel, lockstep_place.block.x, lockstep_place.block.y, lockstep_place.block.z);
  }
}

}  // namespace

const unsigned char* exchange(const char* call, const void* mine, std::size_t bytes) {
  Fiber& me = *block().running;
  require(bytes <= exchange_stride, "lockstep: {} exchanges {} bytes", call, bytes);
  const std::size_t index = me.thread.x;
  unsigned char* const all = exchange_of(index / warp, me.calls++ % 2);
  if (bytes) std::memcpy(all + index % warp * exchange_stride, mine, bytes);
  me.call = call;
  wait_as(Fiber::State::at_warp_call);
  return all;
}

void block_barrier() { wait_as(Fiber::State::at_barrier); }

unsigned char* dynamic_shared_memory() { return block().shared; }

void run_grid(const char* name, dim3 grid, unsigned threads, std::size_t shared_bytes,
              const std::function<void()>& thread) {
  require(threads > 0 && threads <= most_threads && threads % warp == 0,
          "lockstep: {}: {} threads a block; want a multiple of {} up to {}", name, threads, warp,
          most_threads);
  require(shared_bytes <= most_shared, "lockstep: {}: {} bytes of shared memory; {} are the most", name,
          shared_bytes, most_shared);
  require(grid.x > 0 && grid.y > 0 && grid.z > 0 && grid.y <= 65535 && grid.z <= 65535,
          "lockstep: {}: a grid of {} x {} x {}", name, grid.x, grid.y, grid.z);
  const char* const order = std::getenv("MXTAPE_LOCKSTEP");
  Block& b = block();
  b.kernel = name;
  b.thread = &thread;
  b.fibers.resize(threads);
  b.exchange.resize(std::size_t(threads) * 2 * exchange_stride);
  lockstep_place.threads_of_block = dim3(threads);
  lockstep_place.blocks_of_grid = grid;
  for (unsigned z = 0; z < grid.z; ++z)
    for (unsigned y = 0; y < grid.y; ++y)
      for (unsigned x = 0; x < grid.x; ++x) {
        lockstep_place.block = {x, y, z};
        std::memset(b.shared, 0xff, shared_bytes);
        run_block(threads, order && std::string_view(order) == "reverse");
      }
}

namespace {

bool within(const void* address, const void* begin, const void* end) {
  const std::less<const void*> before;
  return !before(address, begin) && before(address, end);
}
bool is_shared(const void* address) {
  return within(address, block().shared, block().shared + most_shared) ||
         within(address, &__data_start, &_end);
}
bool is_local(const void* address) {
  const unsigned char* const stack = block().running->stack.get();
  return within(address, stack, stack + stack_bytes);
}

}  // namespace

void require_global(const char* call, const void* address) {
  require(!is_shared(address) && !is_local(address),
          "lockstep: {} at an address that is not in global memory", call);
}
void require_shared(const char* call, const void* address) {
  require(is_shared(address), "lockstep: {} at an address that is not in shared memory", call);
}

void enqueue(cudaStream_t stream, std::function<void()> work) {
  if (stream && stream->capture)
    stream->capture->calls.push_back(std::move(work));
  else
    work();
}

}  // namespace mxtape::lockstep::host

namespace mxtape::lockstep {
namespace {

void finish(const std::vector<host::AsyncCopy>& group) {
  for (const auto& copy : group)
    copy.from ? std::memcpy(copy.to, copy.from, 16) : std::memset(copy.to, 0, 16);
}

}  // namespace

void host_async_copy_16(void* shared, const void* global, bool inside) {
  require(reinterpret_cast<std::uintptr_t>(shared) % 16 == 0 &&
              (!inside || reinterpret_cast<std::uintptr_t>(global) % 16 == 0),
          "lockstep: an async copy is not aligned to 16 bytes");
  host::require_shared("an async copy to", shared);
  if (inside) host::require_global("an async copy from", global);
  host::block().running->groups.back().push_back({shared, inside ? global : nullptr});
}
void host_async_commit() { host::block().running->groups.emplace_back(); }
void host_async_wait(int kept) {
  auto& groups = host::block().running->groups;
  while (int(groups.size()) - 1 > kept) {
    finish(groups.front());
    groups.pop_front();
  }
}

}  // namespace mxtape::lockstep
