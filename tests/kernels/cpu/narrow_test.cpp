#include "kernels/narrow.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "core/error.h"
#include "formats/codec/mx_tensor.h"
#include "kernels/choose/make_backend.h"
#include "tests/formats/random_quantizer.h"
#include "tests/kernels/quantize_fixture.h"
#include "tests/support/for_all.h"

// What waits in a narrow layout comes back bit for bit.
namespace mxtape::test {
namespace {

Backend& cpu_device() {
  static const auto backend = make_backend("cpu", {.gemm = GemmKernels::integer});
  return *backend;
}

Rounded quantized(const std::vector<float>& x, const Shape& shape, const Quantizer& q, Axis axis,
                  Layout layout, const Rotation& rotation = {}) {
  Rounded copy = room_for(cpu_device(), q, axis, shape, layout);
  copy.by.rotation = rotation;
  copy.by.signs.purpose = Purpose::hadamard_signs;
  quantize(cpu_device(), {&copy, 1}, upload(cpu_device(), shape, x), {.seed = 5, .tensor_id = 1});
  return copy;
}

Rounded packed(const Rounded& copy) {
  Rounded y = copy;
  y.layout = narrowed(copy.layout), y.elements = y.scales = {};
  y = with_room(cpu_device(), y);
  cpu_device().run(call::Recode{y, copy});
  return y;
}

/// Of y's memory every byte is `byte` before.
Rounded unpacked(const Rounded& x, const Rounded& like, int byte) {
  const Rounded y = with_room(cpu_device(), like);
  for (const Tensor* part : {&y.elements, &y.scales})
    if (*part) std::memset(part->raw(), byte, std::size_t(part->bytes()));
  cpu_device().run(call::Recode{y, x});
  return y;
}

/// NaNs are as good as each other; else by bits.
bool same_numbers(const Tensor& a, const Tensor& b) {
  if (!a || a.dtype() == DType::u8)
    return a.bytes() == b.bytes() && std::memcmp(a.raw(), b.raw(), std::size_t(a.bytes())) == 0;
  const auto x = download(cpu_device(), a), y = download(cpu_device(), b);
  return std::equal(x.begin(), x.end(), y.begin(), y.end(), same);
}

bool comes_back(const Rounded& copy) {
  const Rounded once = packed(copy);
  for (const int byte : {0x00, 0xa5}) {
    const Rounded again = unpacked(once, copy, byte);
    if (!same_numbers(copy.elements, again.elements) || !same_numbers(copy.scales, again.scales))
      return false;
  }
  return true;
}

TEST(Narrow, GivesRandomCopiesBackBitForBitOnEveryTier) {
  int codes = 0, values = 0;
  on_every_tier([&] {
    for_all(
        "widened(narrowed(r)) == r", 1200,
        [](Random& random) {
          Quantizer q = random_quantizer(random);
          // Few random ones can be packed.
          if (random() % 2) q.offset = Offset::none;
          if (random() % 2) q.block.along = random() % 2 ? 16 : 32;
          if (random() % 2 && q.scale == ScaleKind::f32) q.scale = ScaleKind::power_of_two;
          const Shape shape{integer_in(random, 1, 100), integer_in(random, 1, 150)};
          const auto x = content(Content(random() % 3), shape.count(), random());
          return std::tuple(q, shape, random() % 4 ? Axis::column : Axis::row, x);
        },
        [&](const auto& input) {
          const auto& [q, shape, axis, x] = input;
          if (!q.contradiction().empty()) return true;
          for (const Layout layout : {Layout::values, Layout::codes}) {
            if (!can_be_narrow(q, axis, layout) || (layout == Layout::codes && !has_integer_codes(q)))
              continue;
            ++(layout == Layout::codes ? codes : values);
            if (comes_back(quantized(x, shape, q, axis, layout))) continue;
            ADD_FAILURE() << to_text(q) << " " << shape.text() << ", axis " << int(axis) << ", layout "
                          << int(layout);
            return false;
          }
          return true;
        });
  });
  EXPECT_GT(codes, 100);
  EXPECT_GT(values, 100);
}

TEST(Narrow, GivesTheShippedFormatsBackFromEveryKindOfBlock) {
  const Shape shapes[] = {{64, 128}, {33, 17}, {1, 1}, {100, 7}, {31, 200}};
  on_every_tier([&] {
    for (const char* text : {"mxfp4 rule=even", "mxfp4 round=stochastic", "mxfp6", "mxfp6_e2m3", "mxfp8",
                             "mxfp8_e5m2", "e3m0 block=32 scale=e8m0", "int4 block=16 scale=e4m3", "nvfp4",
                             "nvfp4 round=stochastic alpha=0.94", "int4 block=32 scale=e8m0",
                             "int2 block=32 scale=e8m0", "e2m1 block=16x16 scale=e8m0"})
      for (const Shape& shape : shapes)
        for (const Content kind : {Content::normal, Content::spread, Content::specials})
          for (const Layout layout : {Layout::values, Layout::codes}) {
            const Quantizer q = parse_quantizer(text);
            if (!can_be_narrow(q, Axis::column, layout) || (layout == Layout::codes && !has_integer_codes(q)))
              continue;
            const auto x = content(kind, shape.count(), 3);
            EXPECT_TRUE(comes_back(quantized(x, shape, q, Axis::column, layout)))
                << text << " " << shape.text() << " layout " << int(layout) << " content " << int(kind);
          }
  });
}

TEST(Narrow, TakesEveryCodeOfAFormatAndEverySignOfZero) {
  for (const ElementFormat& f : {e2m1, e3m0, e2m3, e3m2, e4m3, e5m2, *parse_element("e2m2")}) {
    // One block of all numbers: the largest makes the scale 1.
    const std::uint32_t count = 1u << f.bits();
    std::vector<float> x;
    for (std::uint32_t code = 0; code < count; ++code)
      if (std::abs(decode(f, code)) <= f.max_finite()) x.push_back(decode(f, code));
    Quantizer q = mx(f, 256);
    const Shape shape{std::ssize(x), 1};
    const Rounded copy = quantized(x, shape, q, Axis::column, Layout::values);
    ASSERT_EQ(download(cpu_device(), copy.elements), x) << f.name();
    const Rounded y = packed(copy);
    const auto again = download(cpu_device(), unpacked(y, copy, 0xff).elements);
    for (std::size_t i = 0; i < x.size(); ++i) EXPECT_EQ(bits_of(again[i]), bits_of(x[i])) << f.name();
  }
}

TEST(Narrow, HoldsTheFormatsCodesInAsManyBits) {
  // A row of 16 columns: 1, -2, 3, 4, then zeros, whose scales have no say. Columns are blocks: 1 is 4 below
  // a scale of 1/4, 3 is 6 below one of 1/2.
  std::vector<float> x(16, 0);
  x[0] = 1, x[1] = -2, x[2] = 3, x[3] = 4;
  const Rounded copy = quantized(x, {1, 16}, mxfp4, Axis::column, Layout::values);
  const Rounded y = packed(copy);
  ASSERT_EQ(y.elements.bytes(), 8);
  ASSERT_EQ(y.scales.bytes(), 16);
  const auto* const codes = y.elements.data<std::uint8_t>();
  EXPECT_EQ(codes[0], 0xe6);  // 4 is code 6, -4 is 0xe
  EXPECT_EQ(codes[1], 0x67);  // 6 is code 7
  EXPECT_EQ(y.scales.data<std::uint8_t>()[0], 127 - 2);
  EXPECT_EQ(y.scales.data<std::uint8_t>()[2], 127 - 1);
}

TEST(Narrow, TakesTheBytesOfItsFormat) {
  const auto bytes = [](const char* quantizer, Layout layout) {
    const Quantizer q = parse_quantizer(quantizer);
    const PackedLayout of = bytes_when_packed(wanted(q, Axis::column, {128, 64}, narrowed(layout)));
    return std::pair(of.codes, of.scales);
  };
  const std::int64_t count = 128 * 64;
  EXPECT_EQ(bytes("mxfp4", Layout::codes), std::pair(count / 2, count / 32));
  EXPECT_EQ(bytes("nvfp4", Layout::codes), std::pair(count / 2, count / 16));
  EXPECT_EQ(bytes("mxfp6_e2m3", Layout::codes), std::pair(count * 6 / 8, count / 32));
  EXPECT_EQ(bytes("mxfp4", Layout::values), std::pair(count / 2, count / 32));
  EXPECT_EQ(bytes("mxfp6", Layout::values), std::pair(count * 6 / 8, count / 32));
  EXPECT_EQ(bytes("mxfp8", Layout::values), std::pair(count, count / 32));
}

TEST(Narrow, LeavesWhatWouldNotComeBackAsItIs) {
  const auto takes = [](const char* quantizer, Layout layout) {
    return can_be_narrow(parse_quantizer(quantizer), Axis::column, layout);
  };
  EXPECT_FALSE(takes("mxint8", Layout::values));  // no negative zero
  EXPECT_FALSE(takes("mxint8", Layout::codes));   // a byte already
  EXPECT_FALSE(takes("nvfp4", Layout::values));   // its scales are not found again
  EXPECT_FALSE(takes("bf16", Layout::values));
  EXPECT_FALSE(takes("f32", Layout::values));
  EXPECT_FALSE(can_be_narrow(mxfp4, Axis::row, Layout::values));  // along rows columns share no scale
  const Rounded copy = room_for(cpu_device(), mxint8, Axis::column, {32, 32});
  EXPECT_THROW(packed(copy), Error);
}

}  // namespace
}  // namespace mxtape::test
