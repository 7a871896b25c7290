// The kinds of memory of a thread, and the copies between two of them that it starts and waits for.
#include <cstring>

#include "core/error.h"
#include "kernels/cuda/device.cuh"
#include "tests/support/lockstep/block.h"
#include "tests/support/lockstep/races.h"

extern char __data_start, _end;  // of the program's static variables, by the linker

namespace mxtape::lockstep::host {
namespace {

bool within(const void* address, const void* begin, const void* end) {
  const std::less<const void*> before;
  return !before(address, begin) && before(address, end);
}
bool is_local(const void* address) {
  const unsigned char* const stack = block().running->stack.get();
  return within(address, stack, stack + stack_bytes);
}

void finish(const std::vector<AsyncCopy>& group, const StandIn& stand_in) {
  for (const AsyncCopy& copy : group) {
    if (copy.from) stand_in.note_read(copy.from, 16);
    stand_in.note_write(copy.to, 16);
    copy.from ? std::memcpy(copy.to, copy.from, 16) : std::memset(copy.to, 0, 16);
  }
}

}  // namespace

unsigned char* dynamic_shared_memory() { return block().shared; }

bool is_shared(const void* address) {
  return within(address, block().shared, block().shared + most_shared) ||
         within(address, &__data_start, &_end);
}

void require_global(const char* call, const void* address) {
  require(!is_shared(address) && !is_local(address),
          "lockstep: {} at an address that is not in global memory", call);
}
void require_shared(const char* call, const void* address) {
  require(is_shared(address), "lockstep: {} at an address that is not in shared memory", call);
}

}  // namespace mxtape::lockstep::host

namespace mxtape::lockstep {

void host_load_tiles(std::uint32_t (&r)[4], const void* row, bool transposed) {
  const char* const call = transposed ? "warp_load_tiles_transposed" : "warp_load_tiles";
  require(reinterpret_cast<std::uintptr_t>(row) % 16 == 0, "lockstep: {} at an address not aligned", call);
  host::require_shared(call, row);
  host::note_read(row, 16);
  const unsigned char* const all = host::exchange(call, &row, sizeof row);
  const int g = lane_id() / 4, t = lane_id() % 4;
  for (int i = 0; i < 4; ++i) {
    const auto element = [&](int outer, int inner) {
      return std::uint32_t(of_lane<const std::uint16_t*>(all, i * 8 + outer)[inner]);
    };
    r[i] = transposed ? element(2 * t, g) | element(2 * t + 1, g) << 16
                      : element(g, 2 * t) | element(g, 2 * t + 1) << 16;
  }
}

void host_async_copy_16(void* shared, const void* global, bool inside) {
  require(reinterpret_cast<std::uintptr_t>(shared) % 16 == 0 &&
              (!inside || reinterpret_cast<std::uintptr_t>(global) % 16 == 0),
          "lockstep: an async copy is not aligned to 16 bytes");
  const host::StandIn stand_in;
  host::require_shared("an async copy to", shared);
  if (inside) host::require_global("an async copy from", global);
  stand_in.note_write(shared, 16);  // it may be done at once as well as when it is waited for
  host::block().running->groups.back().push_back({shared, inside ? global : nullptr});
}
void host_async_commit() {
  const host::StandIn stand_in;
  host::block().running->groups.emplace_back();
}
void host_async_wait(int kept) {
  const host::StandIn stand_in;
  auto& groups = host::block().running->groups;
  while (int(groups.size()) - 1 > kept) {
    host::finish(groups.front(), stand_in);
    groups.pop_front();
  }
}

}  // namespace mxtape::lockstep
