#include "formats/codec/mx_tensor.h"

#include <gtest/gtest.h>

#include <cmath>

#include "core/error.h"
#include "tests/formats/random_quantizer.h"

namespace mxtape {
namespace {

using namespace test;

TEST(MxTensor, UnpackingGivesTheValuesOfTheDefinition) {
  for_all(
      "unpack(pack(x)) == Q(x)", 2000,
      [](Random& random) {
        const Quantizer q = random_packable(random);
        const std::int64_t rows = integer_in(random, 1, 9), cols = integer_in(random, 1, 40);
        const Axis axis = random() % 2 ? Axis::row : Axis::column;
        return std::tuple(q, rows, cols, axis, random_values(random, rows * cols));
      },
      [](const auto& input) {
        const auto& [q, rows, cols, axis, x] = input;
        const DrawKey key{1, Purpose::rounding, 2, 3, 4};
        const MxTensor packed = pack(x.data(), rows, cols, axis, q, key);
        std::vector<float> want(x.size()), got(x.size());
        const float multiplier = quantize_reference(want.data(), x.data(), rows, cols, axis, q, key);
        unpack(got.data(), packed);
        for (std::size_t i = 0; i < x.size(); ++i)
          if (got[i] != want[i] && !(std::isnan(got[i]) && std::isnan(want[i]))) return false;
        return multiplier == packed.multiplier;
      });
}

TEST(MxTensor, TakesTheBitsThatTheFormatPromises) {
  const std::vector<float> x(64 * 64, 1.0f);
  for (const Preset& preset : presets) {
    const MxTensor t = pack(x.data(), 64, 64, Axis::row, preset.quantizer, {});
    const auto once_per_tensor = std::int64_t(preset.quantizer.has_multiplier() ? sizeof(float) : 0);
    EXPECT_EQ(double(t.bytes() - once_per_tensor) * 8, preset.quantizer.bits_per_element() * 64 * 64)
        << preset.name;
  }
}

TEST(MxTensor, ABlockThatIsNotFiniteIsStoredAsANaNScale) {
  std::vector<float> x(64, 1.0f);
  x[40] = INFINITY;
  const MxTensor t = pack(x.data(), 1, 64, Axis::row, mxfp4, {});
  EXPECT_EQ(t.scales, (std::vector<std::uint8_t>{125, 255}));
}

TEST(MxTensor, NumbersWithoutACodeAndArraysThatDoNotFitAreErrors) {
  const float nan = NAN;
  EXPECT_THROW(pack(&nan, 1, 1, Axis::row, plain_cast(e2m1), {}), Error);
  const std::vector<float> x(64, 1.0f);
  std::vector<float> y(64);
  MxTensor t = pack(x.data(), 1, 64, Axis::row, mxfp4, {});
  t.scales.pop_back();
  EXPECT_THROW(unpack(y.data(), t), Error);
  t = pack(x.data(), 1, 64, Axis::row, mxfp4, {});
  t.codes.pop_back();
  EXPECT_THROW(unpack(y.data(), t), Error);
}

}  // namespace
}  // namespace mxtape
