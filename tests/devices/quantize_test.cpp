// A device's quantizers against the CPU's, bit for bit. Built for devices other than the CPU only.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <functional>
#include <set>

#include "tests/formats/random_quantizer.h"
#include "tests/support/device.h"
#include "tests/support/every_tier.h"
#include "tests/support/tensors.h"
#include "train/conformance/outcome.h"

namespace mxtape::test {
namespace {

Backend& the_cpu() {
  static const std::unique_ptr<Backend> backend = make_backend("cpu");
  return *backend;
}

/// x [rows, cols], which begins `offset` elements into its memory.
struct Source {
  std::int64_t rows, cols;
  std::vector<float> values{};
  DType dtype = DType::f32;
  std::int64_t offset = 0;
};

/// What one call makes of x.
struct Both {
  Quantizer along_rows, along_columns;
  DrawKey draws{};
};

Tensor placed(Backend& on, const Source& x) {
  if (x.dtype == DType::f32 && x.offset == 0) return upload(on, {x.rows, x.cols}, x.values);
  const Tensor memory = on.empty({x.offset + x.rows * x.cols}, x.dtype);
  void* const first = static_cast<char*>(memory.raw()) + x.offset * size_of(x.dtype);
  const Tensor part(std::shared_ptr<void>(std::make_shared<Tensor>(memory), first), {x.rows, x.cols},
                    x.dtype);
  on.copy(part, upload(on, part.shape(), x.values));
  return part;
}

/// Both copies and their multipliers, one behind the other.
std::vector<float> quantized(Backend& on, const Source& x, const Both& both) {
  const auto copy_for = [&](const Quantizer& q, Axis axis) {
    QuantizedCopy copy{.quantizer = q, .axis = axis};
    copy.values = on.empty({x.rows, x.cols}, q.operand_dtype());
    if (q.has_multiplier()) copy.multiplier = on.empty({1});
    return copy;
  };
  QuantizedCopy copies[] = {copy_for(both.along_rows, Axis::cols), copy_for(both.along_columns, Axis::rows)};
  on.quantize(copies, placed(on, x), both.draws);
  std::vector<float> all;
  for (const QuantizedCopy& copy : copies) {
    append(all, download(on, copy.values));
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

/// The presets, each with nearest and with stochastic rounding.
std::vector<Quantizer> preset_quantizers() {
  std::vector<Quantizer> all;
  for (const Preset& preset : presets)
    for (const Rounding rounding : {Rounding::even, Rounding::stochastic}) {
      Quantizer q = preset.quantizer;
      q.rounding = rounding;
      if (std::find(all.begin(), all.end(), q) == all.end()) all.push_back(q);  // some have two names
    }
  return all;
}

class DeviceQuantize : public testing::Test {
 protected:
  static const std::vector<conformance::Case>& golden_cases() {
    static const conformance::GoldenSet set(golden);
    return set.cases();
  }
  inline static const std::filesystem::path golden = std::filesystem::path(MXTAPE_SHARED) / "golden";
};

TEST_F(DeviceQuantize, EveryCaseOfTheGoldenSetPassesOrDoesNotApply) {
  if (!std::filesystem::exists(golden / "manifest.json")) GTEST_SKIP() << "no golden set at " << golden;
  int passed = 0;
  for (const conformance::Case& c : golden_cases()) {
    const auto outcome = conformance::run_case(c, device());
    EXPECT_NE(outcome.status, conformance::Outcome::Status::failed) << c.name << ": " << outcome.detail;
    passed += outcome.status == conformance::Outcome::Status::passed;
  }
  EXPECT_GT(passed, 0);
}

TEST_F(DeviceQuantize, GoldenInputsBecomeTheCpusBitsInEveryPresetAlongBothAxes) {
  if (!std::filesystem::exists(golden / "manifest.json")) GTEST_SKIP() << "no golden set at " << golden;
  std::set<std::vector<std::uint32_t>> seen;  // many cases share an input
  std::uint64_t seed = 1;
  for (const conformance::Case& c : golden_cases()) {
    if (!c.has("x")) continue;
    Source x;
    x.values = c.floats("x");
    std::vector<std::uint32_t> bits;
    for (const float v : x.values) bits.push_back(bits_of(v));
    if (!seen.insert(bits).second) continue;
    const auto count = std::int64_t(x.values.size());
    x.cols = c.has("shape") ? c.extents("shape").back() : count;
    x.rows = count / x.cols;
    for (const Quantizer& q : preset_quantizers())
      ASSERT_TRUE(gives_the_cpus_bits(x, {q, q, {.seed = seed++}})) << c.name;
  }
  EXPECT_GT(seed, 1u);
}

TEST_F(DeviceQuantize, RandomQuantizersGiveTheCpusBitsOnRandomTensorsOfOddShapes) {
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
// 65535 at most one below the other: further rows are done in turn. Where a tensor's elements do not begin on
// 16 bytes they are read one by one.
TEST_F(DeviceQuantize, TheShapeOfTheLaunchChangesNoBit) {
  std::uint64_t seed = 1;
  for (const std::int64_t cols : {96, 256 + 256 + 40})
    for (const std::int64_t offset : {0, 1})
      for (const char* text : {"mxfp4", "nvfp4", "mxfp4 round=stochastic", "mxint8 round=away"}) {
        const Quantizer q = parse_quantizer(text);
        const Source x{70, cols, normals(70 * cols, unsigned(seed)), DType::bf16, offset};
        ASSERT_TRUE(gives_the_cpus_bits(x, {q, q, {.seed = seed++}}));
      }
  constexpr std::int64_t rows = 65535 * 32 + 33;
  const Quantizer q = parse_quantizer("mxfp4 round=stochastic");
  EXPECT_TRUE(gives_the_cpus_bits({rows, 1, normals(rows, 7)}, {q, q, {.seed = seed}}));
}

}  // namespace
}  // namespace mxtape::test
