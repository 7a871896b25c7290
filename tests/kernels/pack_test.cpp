// What is stored, packed and unpacked, on every device: what they promise beside the bytes, which
// tests/devices/ compares.
#include <gtest/gtest.h>

#include <cmath>

#include "core/error.h"
#include "kernels/mx_transfer.h"
#include "tests/formats/random_quantizer.h"
#include "tests/support/device.h"
#include "tests/support/rounded.h"
#include "tests/support/tensors.h"

namespace mxtape {
namespace {

using namespace test;

std::vector<float> numbers_of(const Rounded& r) {
  std::vector<float> values = download(device(), r.elements);
  if (r.multiplier) values.push_back(download(device(), r.multiplier)[0]);
  return values;
}

TEST(Pack, UnpacksToTheValuesOfQuantize) {
  for_all(
      "unpack(pack(x)) == quantize(x)", 200,
      [](Random& random) {
        const Quantizer q = random_packable(random);
        const std::int64_t rows = integer_in(random, 1, 9), cols = integer_in(random, 1, 40);
        const Axis axis = random() % 2 ? Axis::row : Axis::column;
        return std::tuple(q, rows, cols, axis, random_values(random, rows * cols), random() % 2 == 0);
      },
      [](const auto& input) {
        const auto& [q, rows, cols, axis, values, narrow] = input;
        const DrawKey draws{.seed = 1, .tensor_id = 2, .first_element = 4};
        Tensor x = upload(device(), {rows, cols}, values);
        if (narrow) {
          const Tensor bf16_x = device().empty(x.shape(), DType::bf16);
          device().copy(bf16_x, x);
          x = bf16_x;
        }
        const Rounded packed = quantized(device(), q, axis, x, draws, Layout::stored);
        Rounded y = room_for(device(), q, axis, x.shape());
        y.multiplier = packed.multiplier;
        device().run(call::Recode{y, packed});
        const auto got = numbers_of(y), want = numbers_of(quantized(device(), q, axis, x, draws));
        for (std::size_t i = 0; i < want.size(); ++i)  // integers have no negative zero
          if (got[i] != want[i] && !(std::isnan(got[i]) && std::isnan(want[i]))) return false;
        return got.size() == want.size();
      });
}

TEST(Pack, TheFirstFp4OfAPairIsInTheLowNibbleAndAnOddOneAtTheEndAlone) {
  // 1, -2, 3 are codes 2, 0b1100, 5 of e2m1 when the scale is 1.
  const MxTensor t = pack(device(), std::vector<float>{1, -2, 3, 4, 0.5f}.data(), 1, 5, Axis::row, mxfp4, {});
  EXPECT_EQ(t.codes, (std::vector<std::uint8_t>{0xc2, 0x65, 0x01}));
  EXPECT_EQ(t.scales, (std::vector<std::uint8_t>{127}));
}

TEST(Pack, SixBitCodesCrossBytesAndThreadsOfEight) {
  // Twelve codes of e3m2, two groups of eight numbers; 1 is code 0b001100, and with floor the scale of a
  // block whose largest is 16 is 1.
  std::vector<float> x(12, 1);
  x[8] = 16;  // 0b011100
  const MxTensor t = pack(device(), x.data(), 1, 12, Axis::row, mxfp6_e3m2, {});
  EXPECT_EQ(t.codes, (std::vector<std::uint8_t>{0x0c, 0xc3, 0x30, 0x0c, 0xc3, 0x30, 0x1c, 0xc3, 0x30}));
}

TEST(Pack, TellsTheFirstElementOfWhichANaNIsLost) {
  const auto first_uncoded = [](std::vector<float> x, const char* quantizer) {
    const auto cols = std::int64_t(x.size()) / 2;
    const Rounded t = room_for(device(), parse_quantizer(quantizer), Axis::row, {2, cols}, Layout::stored);
    const Tensor lost = device().empty({1}, DType::i32);
    device().run(call::Quantize{.to = {&t, 1}, .x = upload(device(), {2, cols}, x), .first_uncoded = lost});
    std::int32_t first = 0;
    device().download(&first, lost);
    return first;
  };
  std::vector<float> x(5000, 1);
  for (const char* q : {"e2m1", "e4m3", "int8", "mxfp4"}) EXPECT_EQ(first_uncoded(x, q), -1) << q;
  x[4321] = NAN;
  x[4998] = NAN;
  EXPECT_EQ(first_uncoded(x, "e2m1"), 4321);
  EXPECT_EQ(first_uncoded(x, "int8"), 4321);
  for (const char* q : {"e4m3", "e5m2", "bf16", "mxfp4", "mxint8", "mxfp8 scale=f32"})
    EXPECT_EQ(first_uncoded(x, q), -1) << q;
  // Below a scale without NaN the whole block is lost, which here is rows of 2500 in blocks of 16; the
  // tensor's scale is NaN too, and with it every block.
  EXPECT_EQ(first_uncoded(x, "nvfp4"), -1);
  EXPECT_EQ(first_uncoded(x, "e2m1 scale=e3m2 block=16"), 0);
  EXPECT_THROW(pack(device(), x.data(), 2, 2500, Axis::row, plain_cast(e2m1), {}), Error);
}

TEST(Pack, DrawsAnewEachTimeThatRecordedWorkIsRepeated) {
  const Quantizer q = parse_quantizer("e4m3 round=stochastic");
  const std::vector<float> x = normals(100, 4);
  const auto backend = make_device({.graph = true});
  const Tensor source = upload(*backend, {10, 10}, x);
  for (std::uint32_t step = 0; step < 5; ++step) {
    backend->set_clocks(0, step);
    const std::vector<Tensor> results = backend->repeat("pack", [&]() -> std::vector<Tensor> {
      const DrawKey draws{.seed = 1, .step = step, .clock = Clock::update};
      return {quantized(*backend, q, Axis::row, source, draws, Layout::stored).elements};
    });
    std::vector<std::uint8_t> codes(100);
    backend->download(codes.data(), results[0]);
    EXPECT_EQ(codes, pack(x.data(), 10, 10, Axis::row, q, {.seed = 1, .step = step}).codes) << step;
  }
}

TEST(Pack, KeepsTheSignOfANaN) {
  const std::vector<float> x{NAN, -NAN, float_of(0x7fffffffu), float_of(0xffffffffu)};
  for (const NamedRounding& row : roundings) {
    Quantizer q = plain_cast(e4m3);
    q.rounding = row.value;
    const MxTensor t = pack(device(), x.data(), 1, 4, Axis::row, q, {.seed = 3});
    EXPECT_EQ(t.codes, (std::vector<std::uint8_t>{0x7f, 0xff, 0x7f, 0xff})) << row.name;
  }
}

// What ranks that hold some rows each do to have them all: pack, gather bytes, unpack.
TEST(Pack, BytesOfPartsOneBehindTheOtherAreTheWholes) {
  const std::vector<float> x = normals(6 * 50, 2);
  for (const char* text : {"mxfp4", "mxfp6", "mxint8 offset=fp16", "mxfp8 scale=f32"}) {
    const Quantizer q = parse_quantizer(text);
    const MxTensor whole = pack(device(), x.data(), 6, 50, Axis::row, q, {});
    MxTensor gathered{q, Axis::row, 6, 50, {}, {}, {}};
    for (const std::int64_t row : {0, 4}) {  // 4 and 2 rows of 50 codes end on whole bytes
      const MxTensor part = pack(device(), x.data() + row * 50, row == 0 ? 4 : 2, 50, Axis::row, q, {});
      gathered.codes.insert(gathered.codes.end(), part.codes.begin(), part.codes.end());
      gathered.scales.insert(gathered.scales.end(), part.scales.begin(), part.scales.end());
      gathered.offsets.insert(gathered.offsets.end(), part.offsets.begin(), part.offsets.end());
    }
    EXPECT_EQ(gathered.codes, whole.codes) << text;
    EXPECT_EQ(gathered.scales, whole.scales) << text;
    EXPECT_EQ(gathered.offsets, whole.offsets) << text;
  }
}

TEST(Pack, AMultiplierThatIsNaNHasTheSameBitsForThreeNaNsOfTheTensor) {
  for (const std::uint32_t bits : {0x7fc00000u, 0x7fffffffu, 0xffc00001u}) {
    const float x = float_of(bits);
    EXPECT_EQ(bits_of(pack(device(), &x, 1, 1, Axis::row, nvfp4, {}).multiplier), 0x7fc00000u);
  }
}

TEST(Pack, EmptyTensorsHaveNoBytesAndTheMultiplierOfZeros) {
  const MxTensor t = pack(device(), nullptr, 0, 8, Axis::row, nvfp4, {});
  EXPECT_TRUE(t.codes.empty() && t.scales.empty());
  EXPECT_EQ(t.multiplier, pack(nullptr, 0, 8, Axis::row, nvfp4, {}).multiplier);
  unpack(device(), nullptr, t);
}

TEST(Pack, ArraysThatDoNotFitAreErrors) {
  const std::vector<float> x(64, 1);
  std::vector<float> y(64);
  MxTensor t = pack(device(), x.data(), 1, 64, Axis::row, mxfp4, {});
  t.scales.pop_back();
  EXPECT_THROW(unpack(device(), y.data(), t), Error);
  Rounded packed = room_for(device(), mxfp4, Axis::row, {1, 64}, Layout::stored);
  packed.elements = device().empty({31}, DType::u8);
  EXPECT_THROW(quantize(device(), {&packed, 1}, upload(device(), {1, 64}, x)), Error);
  EXPECT_THROW(device().run(call::Recode{unrounded(device().empty({1, 64})), packed}), Error);
  packed = with_room(device(), packed);
  EXPECT_THROW(quantize(device(), {&packed, 1}, upload(device(), {2, 32}, x)), Error);
}

}  // namespace
}  // namespace mxtape
