#include "tests/support/lockstep/names.h"
// The kernels below are compiled as those of kernels/cuda/ are.
#include <gtest/gtest.h>

#include <array>

#include "tests/support/lockstep/kernels/cuda/device.cuh"
#include "tests/support/lockstep/kernels/cuda/launch.h"
#include "tests/support/lockstep/races.h"

namespace mxtape::cuda {
namespace {

constexpr unsigned threads = 64;
using Numbers = std::array<std::uint32_t, 2 * threads>;

/// What is said of `kernel`, launched with `blocks` blocks; nothing if it has no race.
std::string said_of(void (*kernel)(std::uint32_t*), unsigned blocks = 1) {
  Numbers numbers{};
  try {
    launch("kernel", nullptr, {{blocks}, threads, 1024}, kernel, numbers.data());
  } catch (const Error& e) {
    return e.what();
  }
  return "";
}

template <bool ordered>
void by_barrier(std::uint32_t* x) {
  static std::uint32_t shared[threads];  // __shared__, to nvcc
  shared[threadIdx.x] = threadIdx.x;
  if (ordered) block_sync();
  x[threadIdx.x] = shared[threads - 1 - threadIdx.x];
}
template <bool ordered>
void by_warp_sync(std::uint32_t* x) {
  auto* const shared = dynamic_shared<std::uint32_t>();
  shared[threadIdx.x] = threadIdx.x;
  if (ordered) warp_sync();
  x[threadIdx.x] = warp_xor(shared[threadIdx.x ^ 1u], 1);  // which comes too late, and orders nothing
}
template <bool ordered>
void over_what_all_read(std::uint32_t* x) {
  const std::uint32_t first = x[0];
  if (ordered) block_sync();
  x[threadIdx.x] = first + 1;  // thread 0 has read it too, last or first of all
}
std::uint32_t loaded(const std::uint32_t& x) { return *const_cast<const volatile std::uint32_t*>(&x); }
template <bool ordered>
void of_what_its_writer_has_read(std::uint32_t* x) {
  x[threadIdx.x] = threadIdx.x;
  const std::uint32_t own = loaded(x[threadIdx.x]);
  if (ordered) block_sync();
  x[threads + threadIdx.x] = own + x[threadIdx.x % 32 ? threadIdx.x - 1 : threadIdx.x];
}
template <bool ordered>
void over_what_was_read_again(std::uint32_t* x) {
  if (threadIdx.x >= 32) return;
  const std::uint32_t first = loaded(x[0]);
  warp_sync();
  if (threadIdx.x == 1) x[1] = first + loaded(x[0]);
  if (ordered) warp_sync();
  if (threadIdx.x == 2) x[0] = 1;
}
template <bool ordered>
void by_async_copy(std::uint32_t* x) {
  auto* const shared = dynamic_shared<std::uint32_t>();
  if (threadIdx.x < threads / 4) async_copy_16(shared + 4 * threadIdx.x, x + 4 * threadIdx.x);
  async_commit();
  if (!ordered) block_sync();  // before the copies are sure to have ended
  async_wait<0>();
  if (ordered) block_sync();
  x[threads + threadIdx.x] = shared[threadIdx.x];
}
template <bool ordered>
void to_tiles(std::uint32_t* x) {
  auto* const shared = dynamic_shared<std::uint32_t>();
  for (unsigned i = 0; i < 4; ++i) shared[i * threads + threadIdx.x] = i;
  if (ordered) block_sync();
  std::uint32_t r[4];
  warp_load_tiles(r, shared + 4 * (threads - 1 - threadIdx.x));
  x[threadIdx.x] = r[0];
}
template <bool ordered>
void of_blocks(std::uint32_t* x) {
  x[threadIdx.x + (ordered ? blockIdx.x * threads : 0)] = 1;
}
template <bool ordered>
void of_a_block_before(std::uint32_t* x) {
  auto* const shared = dynamic_shared<std::uint32_t>();
  if (ordered || blockIdx.x == 0) shared[threadIdx.x] = 1;
  x[blockIdx.x * threads + threadIdx.x] = shared[threadIdx.x];
}
void of_blocks_backwards(std::uint32_t* x) { x[2 * threads - 1 - blockIdx.x * threads - threadIdx.x] = 1; }
void to_bytes_of_a_word(std::uint32_t* x) {
  reinterpret_cast<unsigned char*>(x)[threadIdx.x] = static_cast<unsigned char>(threadIdx.x);
}
template <bool ordered>
void to_words_from_their_bytes(std::uint32_t* x) {
  x[threadIdx.x] = threadIdx.x;
  if (ordered) block_sync();
  const auto* const bytes = reinterpret_cast<const unsigned char*>(x);
  x[threads + threadIdx.x] = bytes[4 * (threads - 1 - threadIdx.x) + 1];
}
template <bool ordered>
void to_bytes_from_their_words(std::uint32_t* x) {
  to_bytes_of_a_word(x);
  if (ordered) block_sync();
  x[threads + threadIdx.x] = x[(threads - 1 - threadIdx.x) / 4];
}

TEST(LockstepRaces, AreFoundWhereNothingOrdersAWriteAndAnotherUse) {
  if (!host::finds_races()) GTEST_SKIP() << "none are looked for";
  EXPECT_EQ(said_of(by_barrier<true>), "");
  EXPECT_EQ(said_of(by_warp_sync<true>), "");
  EXPECT_EQ(said_of(over_what_all_read<true>), "");
  EXPECT_EQ(said_of(of_what_its_writer_has_read<true>), "");
  EXPECT_EQ(said_of(over_what_was_read_again<true>), "");
  EXPECT_EQ(said_of(by_async_copy<true>), "");
  EXPECT_EQ(said_of(to_tiles<true>), "");
  EXPECT_EQ(said_of(of_blocks<true>, 2), "");
  EXPECT_EQ(said_of(of_a_block_before<true>, 2), "");
  EXPECT_EQ(said_of(to_bytes_of_a_word), "");
  EXPECT_EQ(said_of(to_words_from_their_bytes<true>), "");
  EXPECT_EQ(said_of(to_bytes_from_their_words<true>), "");
  for (const auto kernel :
       {by_barrier<false>, by_warp_sync<false>, over_what_all_read<false>, of_what_its_writer_has_read<false>,
        over_what_was_read_again<false>, by_async_copy<false>, to_tiles<false>,
        to_words_from_their_bytes<false>, to_bytes_from_their_words<false>})
    EXPECT_NE(said_of(kernel), "");
  EXPECT_EQ(said_of(of_blocks<false>, 2),
            "lockstep: kernel: thread 0 of block 1 writes global memory that thread 0 of block 0 wrote, and "
            "nothing orders the two");
  EXPECT_EQ(said_of(of_a_block_before<false>, 2),
            "lockstep: kernel: thread 0 of block 1 reads shared memory that its block never wrote");
}

TEST(LockstepRaces, AreNoneBetweenLaunches) {
  EXPECT_EQ(said_of(by_barrier<true>), "");
  EXPECT_EQ(said_of(by_barrier<true>), "") << "shared memory is each block's own";
  Numbers numbers{};
  launch("forwards", nullptr, {{2}, threads}, of_blocks<true>, numbers.data());
  EXPECT_NO_THROW(launch("backwards", nullptr, {{2}, threads}, of_blocks_backwards, numbers.data()));
}

}  // namespace
}  // namespace mxtape::cuda
