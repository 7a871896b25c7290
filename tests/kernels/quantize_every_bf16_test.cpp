#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "formats/quantize.h"
#include "tests/support/device.h"
#include "tests/support/rounded.h"
#include "tests/support/tensors.h"

namespace mxtape::test {
namespace {

/// Rows of 32 that begin with `amax`; behind it all bf16 magnitudes from it down to 0, with alternating
/// signs.
std::vector<bf16> blocks_of_every_number(float amax) {
  const std::uint32_t most = bits_of(amax) >> 16;
  std::vector<bf16> x;
  for (std::uint32_t left = most + 1; left > 0; --left) {
    const std::uint32_t number = left - 1;
    if (x.size() % 32 == 0) x.push_back({std::uint16_t(most)});
    x.push_back({std::uint16_t(number | (number & 1) << 15)});
  }
  while (x.size() % 32 != 0) x.push_back({0x8000});
  return x;
}

// Kernels may round bf16 without bringing it to the grid and back, and then have bounds: blocks whose
// smallest normal step is just above and just below 2^-126 (of e5m2, e4m3, e2m3, e2m1), and those above
// 2^100. With a low emax scales are far above their blocks.
TEST(QuantizeEveryBf16, EqualsTheDefinitionInBlocksFromTinyToHuge) {
  std::uint64_t seed = 1;
  for (const Quantizer& format :
       {mxfp4, mxfp8_e4m3, mxfp8_e5m2, mxfp6_e3m2, mxfp6_e2m3, mxint8, parse_quantizer("mxfp4 emax=-64")})
    for (const NamedRounding& rounding : roundings)
      for (const float amax : {1.0f, 0x1.fep3f, 0x1p-97f, 0x1p-98f, 0x1.8p-112f, 0x1.8p-113f, 0x1p-124f,
                               0x1p-125f, 0x1p-127f, 0x1p100f, 0x1.02p100f, 0x1p127f, 0x1.fep127f}) {
        Quantizer q = format;
        q.rounding = rounding.value;
        const std::vector<bf16> narrow = blocks_of_every_number(amax);
        std::vector<float> x;
        for (const bf16 v : narrow) x.push_back(to_f32(v));
        const std::int64_t cols = 32, rows = std::int64_t(x.size()) / cols;
        const DrawKey key{.seed = seed++};
        Rounded copies[2];
        for (const Axis axis : {Axis::row, Axis::column})
          copies[axis == Axis::column] = room_for(device(), q, axis, {rows, cols});
        quantize(device(), copies, upload(device(), {rows, cols}, narrow), key);
        for (const Rounded& copy : copies) {
          std::vector<float> want(x.size());
          quantize_reference(want.data(), x.data(), rows, cols, copy.by.axis, q, key);
          const std::vector<float> got = download(device(), copy.elements);
          for (std::size_t i = 0; i < x.size(); ++i)
            ASSERT_EQ(bits_of(got[i]), bits_of(to_f32(to_bf16(want[i]))))
                << to_text(q) << " along " << (copy.by.axis == Axis::row ? "rows" : "columns") << ", amax "
                << amax << ", x " << x[i] << ", got " << got[i] << ", want " << want[i];
        }
      }
}

}  // namespace
}  // namespace mxtape::test
