#include "tests/support/lockstep/lockstep.h"

#include <cstdlib>
#include <cstring>
#include <span>
#include <string_view>

#if __has_include(<sanitizer/asan_interface.h>)
#include <sanitizer/asan_interface.h>  // its macros do nothing in builds without the sanitizer
#endif

#include "core/error.h"
#include "tests/support/lockstep/block.h"
#include "tests/support/lockstep/races.h"

LockstepPlace lockstep_place;

namespace mxtape::lockstep::host {

Block* const the_block = new Block;

namespace {

constexpr std::size_t cache_line = 64;

void run_thread() {
  Block& b = block();
  try {
    (*b.thread)();
  } catch (...) {
    if (!b.failure) b.failure = std::current_exception();
  }
  b.running->state = Fiber::State::done;
  __builtin_longjmp(b.scheduler, 1);
}

/// Never returns: its frame stays at the stack's end, and the next block's thread jumps into it.
void enter() {
  (void)__builtin_setjmp(block().running->home);
  run_thread();
}

/// Lets a thread run up to its next call that waits.
void resume(Fiber& f) {
  Block& b = block();
  b.running = &f;
  lockstep_place.thread = f.thread;
  if (__builtin_setjmp(b.scheduler)) return watch_nothing();
  watch_thread();
  if (std::exchange(f.started, true)) __builtin_longjmp(f.place, 1);
  if (std::exchange(f.entered, true)) __builtin_longjmp(f.home, 1);
  swapcontext(&b.unused, &f.start);
}

/// Its callers call setjmp themselves. A function around both would return once more after the jump, and the
/// processor mispredicts such a return.
[[noreturn, gnu::noinline]] void go_to_scheduler() { __builtin_longjmp(block().scheduler, 1); }

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
    require(b.fibers[i].call == lead.call || std::string_view(b.fibers[i].call) == lead.call,
            "lockstep: {}: lane 0 of warp {} is at {}, lane {} at {}", b.kernel, first / warp, lead.call,
            i - first, b.fibers[i].call);
  for (std::size_t i = first; i < first + warp; ++i) b.fibers[i].state = Fiber::State::ready;
  if (std::string_view(lead.call) == "warp_sync") ++b.warp_syncs[first / warp];
  return true;
}

bool release_block(std::span<Fiber> fibers) {
  Block& b = block();
  for (const Fiber& f : fibers)
    if (f.state != Fiber::State::at_barrier) return false;
  for (Fiber& f : fibers) f.state = Fiber::State::ready;
  ++b.barriers;
  b.warp_syncs.assign(b.warp_syncs.size(), 0);
  return true;
}

/// A function of its own: getcontext may return twice, which the caller's variables need not survive.
void give_stack(Fiber& f, unsigned index) {
  getcontext(&f.start);
  // Stacks that began at the same place of their pages would have their ends in the same few sets of the
  // caches.
  f.start.uc_stack.ss_sp = f.stack.get();
  f.start.uc_stack.ss_size = stack_bytes - index % 64 * 5 * cache_line;
  f.start.uc_link = nullptr;
  makecontext(&f.start, enter, 0);
}

void run_block(unsigned threads, bool descending) {
  Block& b = block();
  b.barriers = 0;
  b.warp_syncs.assign(threads / warp, 0);
  const std::span fibers(b.fibers.data(), threads);
  for (unsigned t = 0; t < threads; ++t) {
    Fiber& f = fibers[t];
    f.state = Fiber::State::ready;
    f.thread = {t, 0, 0};
    f.calls = 0;
    f.groups.assign(1, {});
    f.started = false;
#ifdef ASAN_UNPOISON_MEMORY_REGION
    ASAN_UNPOISON_MEMORY_REGION(f.stack.get(), stack_bytes);  // of frames that were jumped out of
#endif
    if (!f.entered) give_stack(f, t);
  }
  // A warp runs as far as it can before the next one does: the stacks of 32 threads stay in the cache.
  const auto in_turn = [descending](unsigned i, unsigned count) { return descending ? count - 1 - i : i; };
  for (;;) {
    bool progress = false, done = true;
    for (unsigned w = 0; w < threads / warp; ++w) {
      const unsigned first = in_turn(w, threads / warp) * warp;
      do {
        for (unsigned i = 0; i < warp; ++i) {
          Fiber& f = fibers[first + in_turn(i, warp)];
          if (f.state != Fiber::State::ready) continue;
          progress = true;
          resume(f);
          if (b.failure) std::rethrow_exception(std::exchange(b.failure, nullptr));
        }
        require_no_race();
      } while (release_warp(first));
    }
    progress |= release_block(fibers);
    for (const Fiber& f : fibers) done &= f.state == Fiber::State::done;
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
  unsigned char* const place = all + index % warp * exchange_stride;
  if (bytes == sizeof(std::uint32_t))  // one move, no call that the linker sends to the race detector
    __builtin_memcpy(place, mine, sizeof(std::uint32_t));
  else if (bytes)
    std::memcpy(place, mine, bytes);
  me.call = call;
  me.state = Fiber::State::at_warp_call;
  if (!__builtin_setjmp(me.place)) go_to_scheduler();
  return all;
}

void block_barrier() {
  Fiber& me = *block().running;
  me.state = Fiber::State::at_barrier;
  if (!__builtin_setjmp(me.place)) go_to_scheduler();
}

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
  if (b.fibers.size() < threads) b.fibers.resize(threads);  // what is there has been entered
  b.exchange.resize(std::size_t(threads) * 2 * exchange_stride);
  lockstep_place.threads_of_block = dim3(threads);
  lockstep_place.blocks_of_grid = grid;
  watch_launch();
  for (unsigned z = 0; z < grid.z; ++z)
    for (unsigned y = 0; y < grid.y; ++y)
      for (unsigned x = 0; x < grid.x; ++x) {
        lockstep_place.block = {x, y, z};
        std::memset(b.shared, 0xff, shared_bytes);
        watch_block(x + std::size_t(grid.x) * (y + std::size_t(grid.y) * z));
        run_block(threads, order && std::string_view(order) == "reverse");
      }
}

}  // namespace mxtape::lockstep::host
