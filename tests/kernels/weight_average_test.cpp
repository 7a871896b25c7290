#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "formats/quantize.h"
#include "kernels/calls_rows.h"
#include "tests/kernels/quantize_fixture.h"

namespace mxtape::test {
namespace {

TEST(WeightAverage, IsTheRecurrenceAndStaysWhereTheStepChangedNothing) {
  const std::int64_t n = 1027;
  const auto before = normals(n, 1), value = normals(n, 2);
  const float decay = 0.9f;
  const Tensor average = upload(device(), {n}, before), x = upload(device(), {n}, value);
  const Tensor factor = upload(device(), {1}, std::vector<float>{0.5f});
  device().run(call::WeightAverage{average, x, factor, decay});
  const auto after = download(device(), average);
  for (std::size_t i = 0; i < after.size(); ++i)
    ASSERT_EQ(after[i], before[i] * decay + value[i] * (1 - decay));  // in f32, one by one
  device().run(call::WeightAverage{
      average, x, upload(device(), {1}, std::vector<float>{std::numeric_limits<float>::quiet_NaN()}), decay});
  EXPECT_EQ(download(device(), average), after);
}

TEST(WeightAverage, DecidesRoundingsAsTheDefinitionHasIt) {
  const std::int64_t rows = 70, cols = 90;
  auto value = content(Content::spread, rows * cols, 3);
  const auto shift = normals(rows * cols, 4, 0.3f);
  std::vector<float> averages;
  std::vector<std::uint32_t> bits, own;
  for (std::size_t i = 0; i < value.size(); ++i) {
    averages.push_back(i % 50 == 0 ? std::nanf("") : value[i] * (1 + shift[i]));
    if (i % 11 == 0) value[i] = 0;  // stays, whatever its average
    bits.push_back(bits_of(averages[i])), own.push_back(bits_of(value[i]));
  }
  const Tensor x = upload(device(), {rows, cols}, value), average = upload(device(), {rows, cols}, averages);
  on_every_tier([&] {
    int differ = 0;
    for (const char* text :
         {"mxfp4 rule=rceil ema", "mxfp6_e2m3 ema", "nvfp4 ema", "nvfp4 block=16x16 4o6 ema",
          "int4 block=32 scale=e8m0 ema", "e3m0 block=32 scale=e8m0 tie=code ema"})
      for (const Axis axis : {Axis::row, Axis::column}) {
        const Quantizer q = parse_quantizer(text);
        const auto rounded = [&](const Tensor& by) {
          Rounded to = room_for(device(), q, axis, x.shape());
          to.average = by;
          quantize(device(), {&to, 1}, x);
          return download(device(), to.elements);
        };
        const auto defined = [&](const std::vector<std::uint32_t>& by) {
          std::vector<float> y(value.size());
          quantize_with_draws(y.data(), value.data(), rows, cols, axis, q, by);
          return y;
        };
        const auto got = rounded(average);
        EXPECT_TRUE(std::ranges::equal(got, defined(bits), same)) << text;
        EXPECT_TRUE(std::ranges::equal(rounded({}), defined(own), same)) << text << " without an average";
        differ += got != rounded({});
      }
    EXPECT_EQ(differ, 12);
    if (!device_is_cpu()) return;  // which alone multiplies integer codes
    const Quantizer q = parse_quantizer("mxfp4 rule=rceil ema");
    Rounded codes = room_for(device(), q, Axis::row, x.shape(), Layout::codes);
    codes.average = average;
    quantize(device(), {&codes, 1}, x);
    const Tensor values = device().empty(x.shape());
    device().run(call::Recode{.to = unrounded(values), .from = codes});
    std::vector<float> y(value.size());
    quantize_with_draws(y.data(), value.data(), rows, cols, Axis::row, q, bits);
    EXPECT_EQ(download(device(), values), y);
  });
}

}  // namespace
}  // namespace mxtape::test
