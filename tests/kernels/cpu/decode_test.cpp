// call::Recode into values, on CPUs: codes and values in vectors give the formula's bits.
#include <cmath>

#include "kernels/choose/make_backend.h"
#include "kernels/gemm_codes.h"
#include "tests/kernels/quantize_fixture.h"

namespace mxtape::test {
namespace {

Backend& decoder() {
  static const auto backend = make_backend("cpu", {.gemm = GemmKernels::integer});
  return *backend;
}

/// Both types of results of `from`, with and without its multiplier, on every tier: number(i) * multiplier.
void expect_values(Rounded from, const auto& number) {
  const std::int64_t count = from.shape.count();
  constexpr float factor = 0x1.3579bp-2f;
  for (const bool multiplied : {false, true})
    for (const DType dtype : {DType::f32, DType::bf16}) {
      const Tensor y = decoder().empty(from.shape, dtype);
      decoder().fill(y, 77);
      from.multiplier = multiplied ? upload(decoder(), {1}, std::vector<float>{factor}) : Tensor{};
      decoder().run(call::Recode{unrounded(y), from});
      const std::vector<float> got = download(decoder(), y);
      for (std::int64_t i = 0; i < count; ++i) {
        const float wide = number(i) * (multiplied ? factor : 1.0f);
        const float want = dtype == DType::bf16 ? to_f32(to_bf16(wide)) : wide;
        ASSERT_TRUE(same(got[std::size_t(i)], want))
            << from.shape.text() << " " << to_text(from.by.quantizer) << " axis " << int(from.by.axis) << " "
            << name_of(dtype) << (multiplied ? " multiplied" : "") << " at " << i << ": got "
            << got[std::size_t(i)] << ", want " << want << " (" << cpu::name_of(cpu::tier()) << ")";
      }
    }
}

TEST(CpuDecode, GivesCodeTimesScaleTimesMultiplier) {
  for (const char* format : {"mxint8 block=16", "mxfp4", "int4 block=48 scale=e4m3", "mxint8 block=64"})
    for (const auto& [rows, cols] :
         {std::pair<std::int64_t, std::int64_t>{64, 96}, {1, 1}, {15, 33}, {33, 15}, {70, 1100}, {1100, 70}})
      for (const Axis axis : {Axis::row, Axis::column}) {
        Rounded copy = room_for(decoder(), parse_quantizer(format), axis, {rows, cols}, Layout::codes);
        const CodeLayout at = code_layout(copy);
        std::mt19937 random(unsigned(rows * cols));
        auto* const codes = static_cast<std::int8_t*>(copy.elements.raw());
        for (std::int64_t i = 0; i < copy.elements.count(); ++i) codes[i] = std::int8_t(random() % 255 - 127);
        std::vector<float> scales = normals(copy.scales.count(), 3);
        for (std::size_t i = 0; i < scales.size(); i += 11) scales[i] = std::nanf("");
        std::copy(scales.begin(), scales.end(), copy.scales.data());
        on_every_tier([&] {
          expect_values(copy, [&](std::int64_t i) {
            const std::int64_t r = i / at.depth, c = i % at.depth, k = i / at.lines, line = i % at.lines;
            return axis == Axis::row
                       ? float(codes[at.code_at(r, c)]) * scales[at.scale_at(r, c / at.along)]
                       : float(codes[at.code_at(line, k)]) * scales[at.scale_at(line, k / at.along)];
          });
        });
      }
}

TEST(CpuDecode, MultipliesValuesOfBothTypes) {
  for (const std::int64_t count : {1, 15, 16, 70000})
    for (const DType dtype : {DType::f32, DType::bf16}) {
      const Tensor x = decoder().empty({count}, dtype);
      decoder().copy(x, upload(decoder(), {count}, content(Content::specials, count, 4)));
      const std::vector<float> host = download(decoder(), x);
      on_every_tier(
          [&] { expect_values(unrounded(x), [&](std::int64_t i) { return host[std::size_t(i)]; }); });
    }
}

}  // namespace
}  // namespace mxtape::test
