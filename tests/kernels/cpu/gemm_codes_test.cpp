#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "core/error.h"
#include "core/parallel.h"
#include "formats/codec/block_codec.h"
#include "formats/codec/mx_tensor.h"
#include "kernels/cpu/cpu_backend.h"
#include "kernels/cpu/integer/dots.h"
#include "kernels/gemm_codes.h"
#include "tests/kernels/quantize_fixture.h"

// The definition of a GEMM of codes from the packed tensor of formats/codec/, which shares nothing with its
// kernels.
namespace mxtape::test {
namespace {

/// A rounded matrix as lines of integers, with a scale for each block of a line.
struct Lines {
  std::int64_t lines, depth;
  int along;
  std::vector<int> codes;
  std::vector<float> scales;
  float multiplier;

  std::int64_t blocks() const { return (depth + along - 1) / along; }
};

Lines lines_of(const std::vector<float>& x, std::int64_t rows, std::int64_t cols, Axis axis,
               const Quantizer& q, const DrawKey& key) {
  const MxTensor t = pack(x.data(), rows, cols, axis, q, key);
  const auto words = unpack_bits(t.codes, q.element.bits(), rows * cols);
  const float unit = q.element.min_positive();
  const bool by_rows = axis == Axis::row;
  Lines y{by_rows ? rows : cols, by_rows ? cols : rows, q.block.along, {}, {}, t.multiplier};
  const BlockExtent extent = block_extent(q.block, rows, cols, axis);
  const std::int64_t across = (cols + extent.cols - 1) / extent.cols;
  for (std::int64_t i = 0; i < y.lines; ++i) {
    for (std::int64_t k = 0; k < y.depth; ++k)
      y.codes.push_back(
          int(decode(q.element, words[std::size_t(by_rows ? i * cols + k : k * cols + i)]) / unit));
    for (std::int64_t b = 0; b < y.blocks(); ++b) {
      const std::int64_t r = by_rows ? i : b * y.along, c = by_rows ? b * y.along : i;
      y.scales.push_back(load_scale(t.scales.data(), r / extent.rows * across + c / extent.cols, q).scale *
                         unit);
    }
  }
  return y;
}

std::vector<float> product_by_hand(const Lines& a, const Lines& b, bool scaled) {
  const int segment = std::gcd(a.along, b.along);
  std::vector<float> c;
  for (std::int64_t m = 0; m < a.lines; ++m)
    for (std::int64_t n = 0; n < b.lines; ++n) {
      float sum = 0;
      for (std::int64_t first = 0; first < a.depth; first += segment) {
        std::int64_t products = 0;
        for (std::int64_t k = first; k < std::min(a.depth, first + segment); ++k)
          products += a.codes[std::size_t(m * a.depth + k)] * b.codes[std::size_t(n * b.depth + k)];
        sum = std::fma(float(products) * a.scales[std::size_t(m * a.blocks() + first / a.along)],
                       b.scales[std::size_t(n * b.blocks() + first / b.along)], sum);
      }
      c.push_back(scaled ? sum * (a.multiplier * b.multiplier) : sum);
    }
  return c;
}

class GemmOfCodes : public testing::Test {
 protected:
  ~GemmOfCodes() override { set_threads(threads_before); }

  Rounded codes(const Quantizer& q, Axis axis, const Tensor& x, const DrawKey& key) {
    return quantized(backend, q, axis, x, key, Layout::codes);
  }

  /// A product of random numbers of a kind, on every instruction set.
  void expect_definition(const std::string& a_text, const std::string& b_text, std::int64_t M, std::int64_t N,
                         std::int64_t K, Axis a_axis, Axis b_axis, Content kind = Content::normal) {
    const Quantizer qa = parse_quantizer(a_text), qb = parse_quantizer(b_text);
    const Shape a_shape = a_axis == Axis::row ? Shape{M, K} : Shape{K, M},
                b_shape = b_axis == Axis::row ? Shape{N, K} : Shape{K, N};
    const auto a_host = content(kind, M * K, seed_++), b_host = content(kind, N * K, seed_++);
    const DrawKey a_key{.seed = seed_, .tensor_id = 1}, b_key{.seed = seed_, .tensor_id = 2};
    const auto want = product_by_hand(lines_of(a_host, a_shape[0], a_shape[1], a_axis, qa, a_key),
                                      lines_of(b_host, b_shape[0], b_shape[1], b_axis, qb, b_key),
                                      qa.has_multiplier() || qb.has_multiplier());
    const Tensor a = upload(backend, a_shape, a_host), b = upload(backend, b_shape, b_host);
    const cpu::DotTier best = cpu::dot_tier();
    on_every_tier([&] {
      const Rounded left = codes(qa, a_axis, a, a_key), right = codes(qb, b_axis, b, b_key);
      for (const cpu::DotTier tier : {cpu::DotTier::portable, best}) {
        cpu::set_dot_tier(tier);
        const Tensor c = backend.empty({M, N});
        backend.run(call::Gemm{c, left, right});
        EXPECT_EQ(backend.last_gemm(), GemmPath::integer);
        int shown = 0;
        for (std::size_t i = 0; i < want.size() && shown < 3; ++i)
          if (!same(c.data()[i], want[i]) && !(c.data()[i] == 0 && want[i] == 0))
            ++shown, ADD_FAILURE() << a_text << " times " << b_text << ", " << M << "x" << N << "x" << K
                                   << " along " << int(a_axis) << int(b_axis) << " on "
                                   << cpu::name_of(cpu::tier()) << " and " << cpu::name_of(tier) << " at "
                                   << i << ": " << c.data()[i] << ", want " << want[i];
      }
      cpu::set_dot_tier(best);
    });
  }

  const int threads_before = threads();
  CpuBackend backend{GemmKernels::integer};
  std::uint64_t seed_ = 1;
};

const std::string eligible[] = {"mxfp4",
                                "mxfp4 block=16 rule=even round=stochastic",
                                "mxfp6_e2m3 rule=ceil",
                                "e3m0 block=32 scale=e8m0 round=stochastic",
                                "mxint8",
                                "int4 block=64 scale=e8m0",
                                "int2 block=16 scale=e5m0",
                                "int4 emax=3 block=32 scale=e8m0",
                                "nvfp4",
                                "nvfp4 block=16x16",
                                "mxfp4 block=32x32",
                                "mxfp4 alpha=0.75 round=stochastic",
                                "nvfp4 4o6",
                                "mxfp4 block=48",
                                "mxfp4 block=128 rule=rceil",
                                "e2m4 block=32 scale=e8m0",
                                "e1m3 block=32 scale=e8m0 round=zero"};

TEST_F(GemmOfCodes, EveryPairOfFormatsHasTheBitsOfTheDefinition) {
  for (const auto& a : eligible)
    for (const auto& b : eligible) {
      ASSERT_TRUE(has_integer_codes(parse_quantizer(a))) << a;
      expect_definition(a, b, 19, 37, 101, Axis::row, Axis::row);
    }
}

TEST_F(GemmOfCodes, EveryFormAndShapeHasTheBitsOfTheDefinition) {
  const std::int64_t shapes[][3] = {{1, 1, 1},    {5, 3, 16},    {16, 48, 32},
                                    {65, 81, 70}, {130, 17, 77}, {40, 150, 900}};
  for (const auto& [M, N, K] : shapes)
    for (const Axis a : {Axis::row, Axis::column})
      for (const Axis b : {Axis::row, Axis::column})
        for (const std::string text :
             {"mxfp4 rule=even", "nvfp4 round=stochastic", "mxint8 block=64", "mxfp4 block=48"})
          expect_definition(text, text, M, N, K, a, b);
}

TEST_F(GemmOfCodes, BlocksOfAnyMagnitudeAndBlocksThatAreNanComeOutAsTheDefinitionHasThem) {
  for (const Content kind : {Content::spread, Content::specials})
    for (const std::string text : {"mxfp4", "nvfp4", "mxint8", "mxfp4 block=48", "int4 block=16 scale=e4m0"})
      for (const auto& [a, b] : {std::pair{Axis::row, Axis::column}, {Axis::column, Axis::row}})
        expect_definition(text, text, 33, 50, 200, a, b, kind);
}

TEST_F(GemmOfCodes, BiasAndWhatIsThereAlreadyAreAddedLast) {
  const std::int64_t M = 21, N = 70, K = 96;
  const Tensor x = upload(backend, {M, K}, content(Content::normal, M * K, 1)),
               w = upload(backend, {N, K}, content(Content::normal, N * K, 2));
  const Quantizer q = parse_quantizer("nvfp4");
  const Rounded a = codes(q, Axis::row, x, {}), b = codes(q, Axis::row, w, {});
  const auto bias = content(Content::normal, N, 3), before = content(Content::normal, M * N, 4);
  const Tensor plain = backend.empty({M, N}), c = upload(backend, {M, N}, before);
  backend.run(call::Gemm{plain, a, b});
  backend.run(
      call::Gemm{.c = c, .a = a, .b = b, .bias = upload(backend, {N}, bias), .write = Write::accumulate});
  for (std::int64_t i = 0; i < M * N; ++i)
    ASSERT_EQ(c.data()[i], before[std::size_t(i)] + (plain.data()[i] + bias[std::size_t(i % N)])) << i;
}

TEST_F(GemmOfCodes, TheNumberOfThreadsChangesNoBit) {
  const std::int64_t M = 500, N = 700, K = 300;
  const Tensor x = upload(backend, {M, K}, content(Content::normal, M * K, 1)),
               w = upload(backend, {N, K}, content(Content::normal, N * K, 2));
  const Rounded a = codes(mxfp4, Axis::row, x, {}), b = codes(mxfp4, Axis::row, w, {});
  const Tensor one = backend.empty({M, N}), more = backend.empty({M, N});
  set_threads(1);
  backend.run(call::Gemm{one, a, b});
  for (const int count : {2, 3}) {
    set_threads(count);
    backend.run(call::Gemm{more, a, b});
    EXPECT_EQ(std::memcmp(one.raw(), more.raw(), std::size_t(one.bytes())), 0) << count << " threads";
  }
}

TEST_F(GemmOfCodes, CodesAndValuesOfOneCallAreThoseOfTwo) {
  const Shape shape{70, 300};
  const Tensor x = upload(backend, shape, content(Content::normal, shape.count(), 1));
  const Quantizer q = parse_quantizer("mxfp4 round=stochastic");
  const DrawKey key{.seed = 7};
  Rounded together[] = {room_for(backend, q, Axis::row, shape, Layout::codes),
                        room_for(backend, q, Axis::column, shape)};
  quantize(backend, together, x, key);
  const Rounded alone = codes(q, Axis::row, x, key);
  EXPECT_EQ(
      std::memcmp(together[0].elements.raw(), alone.elements.raw(), std::size_t(alone.elements.bytes())), 0);
  std::vector<float> want(std::size_t(shape.count()));
  const auto host = download(backend, x);
  quantize_reference(want.data(), host.data(), shape[0], shape[1], Axis::column, q, key);
  EXPECT_EQ(download(backend, together[1].elements), want);
}

TEST_F(GemmOfCodes, EveryCodeAndScaleIsWrittenAndNothingBesideThem) {
  constexpr std::int64_t guard = 64;
  // A tensor between two guards of the same memory, all of it 77s.
  const auto guarded = [&](Shape shape, DType dtype) {
    const std::int64_t bytes = shape.count() * size_of(dtype);
    const Tensor all = backend.empty({bytes + 2 * guard}, DType::u8);
    std::memset(all.raw(), 77, std::size_t(all.bytes()));
    return std::pair{
        all, Tensor(std::shared_ptr<void>(std::make_shared<Tensor>(all), all.data<std::uint8_t>() + guard),
                    shape, dtype)};
  };
  on_every_tier([&] {
    for (const char* text :
         {"mxfp4", "mxfp4 block=16 round=stochastic", "nvfp4 block=16x16", "mxfp4 block=48"})
      for (const auto [rows, cols] : shapes)
        for (const Axis axis : {Axis::row, Axis::column}) {
          const Quantizer q = parse_quantizer(text);
          Rounded copy = room_for(backend, q, axis, {rows, cols}, Layout::codes);
          const auto [codes, values] = guarded(code_layout(copy).codes(), DType::u8);
          const auto [all_scales, scales] = guarded(code_layout(copy).scales(), DType::f32);
          copy.elements = values, copy.scales = scales;
          const auto host = content(Content::normal, rows * cols, 9);
          quantize(backend, {&copy, 1}, upload(backend, {rows, cols}, host), {.seed = 3});
          const auto untouched = [&](const Tensor& memory, std::int64_t from, std::int64_t to) {
            for (std::int64_t i = from; i < to; ++i)
              if (memory.data<std::uint8_t>()[i] != 77) return false;
            return true;
          };
          for (const Tensor& memory : {codes, all_scales})
            ASSERT_TRUE(untouched(memory, 0, guard) &&
                        untouched(memory, memory.bytes() - guard, memory.bytes()))
                << text << " " << rows << "x" << cols;
          for (const std::uint8_t code : values.host<std::uint8_t>()) ASSERT_NE(code, 77) << text;
          for (const float scale : scales.host()) ASSERT_NE(bits_of(scale), 0x4d4d4d4du) << text;
          // Lines and codes that are not there count for nothing.
          const CodeLayout l = code_layout(copy);
          for (std::int64_t line = 0; line < l.panels() * CodeLayout::panel; ++line)
            for (std::int64_t k = 0; k < l.padded_depth(); ++k)
              if (line >= l.lines || k >= l.depth) {
                ASSERT_EQ(values.data<std::uint8_t>()[l.code_at(line, k)], 0)
                    << text << " " << line << " " << k;
              }
        }
  });
}

TEST_F(GemmOfCodes, CodesMeetNothingButCodes) {
  const Tensor x = upload(backend, {16, 32}, content(Content::normal, 16 * 32, 1));
  const Rounded a = codes(mxfp4, Axis::row, x, {});
  try {
    backend.run(call::Gemm{backend.empty({16, 16}), a, unrounded(x)});
    FAIL() << "nothing was thrown";
  } catch (const Error& e) {
    EXPECT_TRUE(std::string(e.what()).ends_with("want both as values or both as codes")) << e.what();
  }
  EXPECT_THROW(codes(mxfp8_e4m3, Axis::row, x, {}), Error);
}

}  // namespace
}  // namespace mxtape::test
