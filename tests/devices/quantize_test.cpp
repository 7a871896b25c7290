// A device's quantizers against the CPU's, bit for bit. Built for devices other than the CPU only.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>

#include "tests/conformance/outcome.h"
#include "tests/devices/inputs.h"
#include "tests/formats/random_quantizer.h"
#include "tests/support/every_tier.h"
#include "tests/support/rounded.h"

namespace mxtape::test {
namespace {

/// What one call makes of x.
struct Both {
  Quantizer along_rows, along_columns;
  DrawKey draws{};
};

/// Both copies and their multipliers, one behind the other.
std::vector<float> quantized(Backend& on, const Source& x, const Both& both) {
  const Shape shape{x.rows, x.cols};
  Rounded copies[] = {room_for(on, both.along_rows, Axis::row, shape),
                      room_for(on, both.along_columns, Axis::column, shape)};
  quantize(on, copies, placed(on, x), both.draws);
  std::vector<float> all;
  for (const Rounded& copy : copies) {
    append(all, download(on, copy.elements));
    if (copy.multiplier) append(all, download(on, copy.multiplier));
  }
  return all;
}

/// False, and a failure, at the first number that differs; payloads of NaN may.
bool gives_the_cpus_bits(const Source& x, const Both& both) {
  const auto got = quantized(device(), x, both), cpu = quantized(the_cpu(), x, both);
  const auto differ = [](float a, float b) {
    return bits_of(a) != bits_of(b) && !(std::isnan(a) && std::isnan(b));
  };
  const auto [a, b] = std::mismatch(got.begin(), got.end(), cpu.begin(), cpu.end(), std::not_fn(differ));
  if (a == got.end()) return true;
  ADD_FAILURE() << name_of(x.dtype) << " [" << x.rows << ", " << x.cols << "] as " << to_text(both.along_rows)
                << " and " << to_text(both.along_columns) << ": number " << a - got.begin() << " is " << *a
                << ", the CPU's " << *b;
  return false;
}

void expect_that_every_case_passes_or_does_not_apply(const std::vector<conformance::Case>& cases) {
  std::size_t passed = 0;
  for (const conformance::Case& c : cases) {
    const auto outcome = conformance::run_case(c, device());
    EXPECT_NE(outcome.status, conformance::Outcome::Status::failed) << c.name << ": " << outcome.detail;
    passed += outcome.status == conformance::Outcome::Status::passed;
  }
  EXPECT_GT(3 * passed, 2 * cases.size());
}

TEST(DeviceQuantize, EveryCaseOfTheGoldenSetPassesOrDoesNotApply) {
  expect_that_every_case_passes_or_does_not_apply(golden_cases());
}

TEST(DeviceQuantize, EveryCaseOfALargerGoldenSetPassesOrDoesNotApply) {
  const auto folder = std::filesystem::path(MXTAPE_SHARED) / "golden";
  if (!std::filesystem::exists(folder / "manifest.json")) GTEST_SKIP() << "no golden set at " << folder;
  const conformance::GoldenSet set(folder);
  expect_that_every_case_passes_or_does_not_apply(set.cases());
}

TEST(DeviceQuantize, GoldenInputsBecomeTheCpusBitsInEveryPresetAlongBothAxes) {
  std::uint64_t seed = 1;
  for (const Source& x : golden_inputs())
    for (const Quantizer& q : preset_quantizers())
      ASSERT_TRUE(gives_the_cpus_bits(x, {q, q, {.seed = seed++}}));
  EXPECT_GT(seed, 1u);
}

TEST(DeviceQuantize, RandomQuantizersGiveTheCpusBitsOnRandomTensorsOfOddShapes) {
  for_all(
      "a device quantizes as the CPU does", 100,
      [](Random& random) {
        Source x{integer_in(random, 0, 50) * 2 + 1, integer_in(random, 0, 50) * 2 + 1};
        x.values = random_values(random, x.rows * x.cols);
        x.dtype = random() % 2 ? DType::f32 : DType::bf16;
        x.offset = integer_in(random, 0, 8);
        return std::pair(x, Both{random_quantizer(random),
                                 random_quantizer(random),
                                 {.seed = random(), .first_element = random() % 100}});
      },
      [](const auto& input) { return gives_the_cpus_bits(input.first, input.second); });
}

// Warps of 32 columns lie side by side in a block, eight at most; blocks lie side by side in a grid, and
// 4096 at most one below the other: further rows are done in turn. Where a tensor's elements do not begin on
// 16 bytes they are read one by one.
TEST(DeviceQuantize, TheShapeOfTheLaunchChangesNoBit) {
  std::uint64_t seed = 1;
  for (const std::int64_t cols : {96, 256 + 256 + 40})
    for (const std::int64_t offset : {0, 1})
      for (const char* text : {"mxfp4", "nvfp4", "mxfp4 round=stochastic", "mxint8 round=away"}) {
        const Quantizer q = parse_quantizer(text);
        const Source x{70, cols, normals(70 * cols, unsigned(seed)), DType::bf16, offset};
        ASSERT_TRUE(gives_the_cpus_bits(x, {q, q, {.seed = seed++}}));
      }
  constexpr std::int64_t rows = 4096 * 32 + 33;
  const Quantizer q = parse_quantizer("mxfp4 round=stochastic");
  for (const std::int64_t cols : {1, 8})
    for (const DType dtype : {DType::f32, DType::bf16})
      for (const float deviation : {1.0f, 0x1p-125f})
        EXPECT_TRUE(gives_the_cpus_bits({rows, cols, normals(rows * cols, 7, deviation), dtype},
                                        {q, q, {.seed = seed}}));
}

}  // namespace
}  // namespace mxtape::test
