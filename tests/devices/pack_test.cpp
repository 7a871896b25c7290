// A device's packed tensors against the CPU's, byte for byte. Built for devices other than the CPU only.
#include <gtest/gtest.h>

#include <cmath>

#include "kernels/mx_transfer.h"
#include "tests/devices/inputs.h"
#include "tests/formats/random_quantizer.h"
#include "tests/support/rounded.h"

namespace mxtape::test {
namespace {

/// What `on` makes of x: the bytes, and what it unpacks them to.
struct Result {
  MxTensor packed;
  std::vector<float> unpacked;
};
Result result_of(Backend& on, const Source& x, const Quantizer& q, Axis axis, const DrawKey& draws) {
  const Rounded packed = test::quantized(on, q, axis, placed(on, x), draws, Layout::stored);
  Rounded y = room_for(on, q, axis, {x.rows, x.cols});
  y.multiplier = packed.multiplier;
  on.run(call::Recode{y, packed});
  return {download(on, packed), download(on, y.elements)};
}

bool same(float a, float b) { return bits_of(a) == bits_of(b) || (std::isnan(a) && std::isnan(b)); }

/// False, and a failure, at the first byte that differs, or number of those that were unpacked again;
/// payloads of NaN among these may.
bool packs_as_the_cpu(const Source& x, const Quantizer& q, Axis axis, const DrawKey& draws) {
  const Result got = result_of(device(), x, q, axis, draws), cpu = result_of(the_cpu(), x, q, axis, draws);
  const auto first_difference = [](const auto& a, const auto& b, const auto& equal) -> std::string {
    if (a.size() != b.size()) return fmt::format("{} of them, the CPU's {}", a.size(), b.size());
    for (std::size_t i = 0; i < a.size(); ++i)
      if (!equal(a[i], b[i])) return fmt::format("number {} is {}, the CPU's {}", i, a[i], b[i]);
    return {};
  };
  std::string difference;
  const auto compare = [&](const char* part, const auto& a, const auto& b, const auto& equal) {
    const std::string found = first_difference(a, b, equal);
    if (!found.empty() && difference.empty()) difference = fmt::format("{}: {}", part, found);
  };
  compare("codes", got.packed.codes, cpu.packed.codes, std::equal_to<>());
  compare("scales", got.packed.scales, cpu.packed.scales, std::equal_to<>());
  compare("offsets", got.packed.offsets, cpu.packed.offsets, std::equal_to<>());
  compare("multiplier", std::vector{got.packed.multiplier}, std::vector{cpu.packed.multiplier}, same);
  compare("values", got.unpacked, cpu.unpacked, same);
  if (difference.empty()) return true;
  ADD_FAILURE() << name_of(x.dtype) << " [" << x.rows << ", " << x.cols << "] as " << to_text(q) << " along "
                << (axis == Axis::row ? "cols" : "rows") << ": " << difference;
  return false;
}

TEST(DevicePack, GoldenInputsBecomeTheCpusBytesInEveryPresetAlongBothAxes) {
  std::uint64_t seed = 1;
  bool stochastic = false;  // every other input
  for (const Source& x : golden_inputs()) {
    stochastic = !stochastic;
    for (const Quantizer& q : preset_quantizers())
      for (const Axis axis : {Axis::row, Axis::column})
        if (q.is_stochastic() == stochastic) {
          ASSERT_TRUE(packs_as_the_cpu(x, q, axis, {.seed = seed++}));
        }
  }
  EXPECT_GT(seed, 1u);
}

TEST(DevicePack, RandomQuantizersGiveTheCpusBytesOnRandomTensorsOfOddShapes) {
  for_all(
      "a device packs as the CPU does", 100,
      [](Random& random) {
        Source x{integer_in(random, 0, 50) * 2 + 1, integer_in(random, 0, 50) * 2 + 1};
        x.values = random_values(random, x.rows * x.cols);
        x.dtype = random() % 2 ? DType::f32 : DType::bf16;
        x.offset = integer_in(random, 0, 8);
        const DrawKey draws{.seed = random(), .first_element = random() % 100};
        return std::tuple(x, random_packable(random), random() % 2 ? Axis::row : Axis::column, draws);
      },
      [](const auto& input) {
        const auto& [x, q, axis, draws] = input;
        return packs_as_the_cpu(x, q, axis, draws);
      });
}

// A thread has eight elements, a block of threads 2048; scales of blocks up to 4096 elements are a warp's
// work, of larger ones all threads' of a block.
TEST(DevicePack, TheShapeOfTheLaunchChangesNoByte) {
  for (const auto& [rows, cols] : {std::pair{1, 5}, {32, 64}, {3, 1371}})
    for (const char* text :
         {"mxfp4 round=stochastic", "mxfp6 block=axis", "nvfp4", "int5 scale=f32 block=tensor",
          "e5m1 scale=e8m0 block=3x2 offset=fp16", "e2m2", "f32"})
      for (const Axis axis : {Axis::row, Axis::column})
        for (const DType dtype : {DType::f32, DType::bf16}) {
          const Source x{rows, cols, normals(rows * cols, unsigned(cols)), dtype};
          ASSERT_TRUE(packs_as_the_cpu(x, parse_quantizer(text), axis, {.seed = 7}));
        }
}

// Every float whose upper half is this, and every rounding of it: infinities, NaN and subnormals of formats
// with and without codes for them.
TEST(DevicePack, PlainCastsOfEveryBf16NumberHaveTheCpusCodes) {
  Source x{257, 257};  // odd, and more than 2^16
  for (std::uint32_t i = 0; i < 257 * 257; ++i) x.values.push_back(float_of(i << 16));
  for (const char* text : {"e4m3", "e5m2", "f16 round=stochastic", "bf16", "f32", "e8m2 round=away"})
    ASSERT_TRUE(packs_as_the_cpu(x, parse_quantizer(text), Axis::row, {.seed = 9}));
}

}  // namespace
}  // namespace mxtape::test
