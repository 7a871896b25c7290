// call::Recode of what is stored, on CPUs: vectors and threads give the definition's bits.
#include <gtest/gtest.h>

#include <cstring>

#include "formats/codec/codec.h"
#include "kernels/choose/make_backend.h"
#include "kernels/gemm_codes.h"
#include "kernels/mx_transfer.h"
#include "tests/formats/random_quantizer.h"
#include "tests/support/every_tier.h"
#include "tests/support/for_all.h"
#include "tests/support/rounded.h"
#include "tests/support/tensors.h"

namespace mxtape {
namespace {

using namespace test;

template <class Work>
void on_every_tier(const Work& work) {
  const cpu::Tier best = cpu::tier();
  for (const cpu::Tier tier : tiers_of_this_machine()) {
    SCOPED_TRACE(cpu::name_of(tier));
    cpu::set_tier(tier);
    work();
  }
  cpu::set_tier(best);
}

bool same_bits(const void* a, const void* b, std::size_t bytes) { return std::memcmp(a, b, bytes) == 0; }

/// Both types of results, against formats/codec/mx_tensor.h's unpack().
bool unpacks_as_defined(Backend& backend, const MxTensor& t) {
  const auto count = std::size_t(t.rows * t.cols);
  std::vector<float> want(count), got(count);
  unpack(want.data(), t);
  const Rounded packed = upload(backend, t);
  const Tensor wide = backend.empty({t.rows, t.cols});
  const Tensor narrow = backend.empty({t.rows, t.cols}, DType::bf16);
  for (const Tensor& y : {wide, narrow}) {
    Rounded to = unrounded(y);
    to.multiplier = packed.multiplier;
    backend.run(call::Recode{to, packed});
  }
  std::vector<bf16> want_narrow(count);
  for (std::size_t i = 0; i < count; ++i) want_narrow[i] = to_bf16(want[i]);
  return same_bits(wide.raw(), want.data(), count * sizeof(float)) &&
         same_bits(narrow.raw(), want_narrow.data(), count * sizeof(bf16));
}

TEST(CpuUnpack, GivesTheDefinitionsBitsOnEveryTier) {
  const auto backend = make_backend("cpu");
  on_every_tier([&] {
    for_all(
        "unpack == the definition", 300,
        [](Random& random) {
          const Quantizer q = random_packable(random);
          const std::int64_t rows = integer_in(random, 1, 9), cols = integer_in(random, 1, 300);
          const Axis axis = random() % 2 ? Axis::row : Axis::column;
          std::int64_t first_uncoded = -1;
          return pack(random_values(random, rows * cols).data(), rows, cols, axis, q, {}, first_uncoded);
        },
        [&](const MxTensor& t) { return unpacks_as_defined(*backend, t); });
  });
}

TEST(CpuUnpack, GivesTheIntegerCodesThatQuantizeWrites) {
  const auto backend = make_backend("cpu", {.gemm = GemmKernels::integer});
  int compared = 0;
  for (const char* format :
       {"mxfp4", "mxfp4 rule=even round=stochastic", "mxfp6_e2m3", "mxint8", "int4 block=16 scale=e4m3",
        "nvfp4 outer=none", "nvfp4", "mxfp4 block=32x32", "mxfp4 block=16x16", "e3m0 block=64 scale=e8m0"})
    for (const auto& [rows, cols] : {std::pair<std::int64_t, std::int64_t>{64, 96}, {37, 65}, {1, 5}})
      for (const Axis axis : {Axis::row, Axis::column}) {
        const Quantizer q = parse_quantizer(format);
        ASSERT_TRUE(has_integer_codes(q)) << format;
        std::vector<float> values = normals(rows * cols, 8);
        for (std::size_t i = 0; i < values.size(); i += 3) values[i] = i % 2 ? 0.0f : -0.0f;
        const Tensor x = upload(*backend, {rows, cols}, values);
        const DrawKey draws{.seed = 1, .tensor_id = 2};
        const Rounded want = quantized(*backend, q, axis, x, draws, Layout::codes),
                      packed = quantized(*backend, q, axis, x, draws, Layout::stored);
        Rounded got = room_for(*backend, q, axis, x.shape(), Layout::codes);
        got.multiplier = packed.multiplier;
        std::memset(got.elements.raw(), 0x55, std::size_t(got.elements.bytes()));
        std::memset(got.scales.raw(), 0x55, std::size_t(got.scales.bytes()));
        backend->run(call::Recode{got, packed});
        EXPECT_TRUE(same_bits(got.elements.raw(), want.elements.raw(), std::size_t(want.elements.bytes())))
            << format << " " << rows << " x " << cols;
        // Of a block of zeros the scale may be any.
        const Tensor worth_got = backend->empty(x.shape()), worth_want = backend->empty(x.shape());
        backend->run(call::Recode{unrounded(worth_got), got});
        backend->run(call::Recode{unrounded(worth_want), want});
        EXPECT_TRUE(same_bits(worth_got.raw(), worth_want.raw(), std::size_t(x.bytes())))
            << format << " " << rows << " x " << cols;
        ++compared;
      }
  EXPECT_EQ(compared, 60);
}

TEST(CpuUnpack, RefusesCodesOfAnotherLayoutOrOfFormatsWithoutIntegers) {
  const auto backend = make_backend("cpu");
  const auto room = [&](const Quantizer& q, Axis axis, Layout layout) {
    return with_room(*backend, wanted(q, axis, {32, 64}, layout));
  };
  const Rounded packed = room(mxfp4, Axis::row, Layout::stored);
  Rounded codes = room(mxfp4, Axis::row, Layout::codes);
  EXPECT_THROW(backend->run(call::Recode{room(mxfp4, Axis::column, Layout::codes), packed}), Error);
  EXPECT_THROW(backend->run(call::Recode{codes, room(mxfp4, Axis::row, Layout::values)}), Error);
  codes.by.quantizer = mxfp8_e4m3;
  EXPECT_THROW(backend->run(call::Recode{codes, room(mxfp8_e4m3, Axis::row, Layout::stored)}), Error);
  codes = room(mxfp4, Axis::row, Layout::codes), codes.scales = {};
  EXPECT_THROW(backend->run(call::Recode{codes, packed}), Error);
}

TEST(CpuUnpack, RefusesTheSameLayoutAnotherQuantizerAndAMultiplierOfItsOwn) {
  const auto backend = make_backend("cpu");
  const auto room = [&](const Quantizer& q, Layout layout) {
    return with_room(*backend, wanted(q, Axis::column, {32, 64}, layout));
  };
  for (const Layout layout : {Layout::codes, Layout::stored, Layout::narrow_values, Layout::narrow_codes}) {
    const Rounded r = room(mxfp4, layout);
    EXPECT_THROW(backend->run(call::Recode{r, r}), Error) << int(layout);
  }
  EXPECT_THROW(backend->run(call::Recode{room(mxint8, Layout::codes), room(mxfp4, Layout::stored)}), Error);
  Rounded wide = room(mxfp4, Layout::values);
  wide.elements = backend->empty(wide.shape);  // f32, where the narrow layout is of bf16
  EXPECT_THROW(backend->run(call::Recode{wide, room(mxfp4, Layout::narrow_values)}), Error);
  const Rounded packed = room(nvfp4, Layout::stored);
  EXPECT_THROW(backend->run(call::Recode{room(nvfp4, Layout::codes), packed}), Error);
  const Tensor twice_rounded = backend->empty({32, 64}, DType::bf16);
  EXPECT_THROW(backend->run(call::Recode{unrounded(twice_rounded), packed}), Error);
  EXPECT_THROW(with_room(*backend, wanted(mxfp4, Axis::row, {32, 64}, Layout::narrow_values)), Error);
}

TEST(CpuUnpack, DecodesEveryCodeOfEveryFormat) {
  const auto backend = make_backend("cpu");
  on_every_tier([&] {
    for (const NamedFormat& row : element_formats) {
      const int width = row.format.bits();
      if (width > 16) continue;
      // All codes twice, in blocks of 32: the second time below another scale.
      const std::int64_t cols = std::max<std::int64_t>(std::int64_t{2} << width, 64);
      MxTensor t{mx(row.format), Axis::row, 1, cols, {}, {}, {}, 1};
      std::vector<std::uint32_t> codes;
      for (std::int64_t i = 0; i < cols; ++i) codes.push_back(std::uint32_t(i) & low_bits(width));
      t.codes = pack_bits(codes, width);
      for (std::int64_t i = 0; i < cols / 32; ++i) t.scales.push_back(i < cols / 64 ? 127 : 120);
      EXPECT_TRUE(unpacks_as_defined(*backend, t)) << row.name;
    }
  });
}

}  // namespace
}  // namespace mxtape
