#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "core/error.h"
#include "core/parallel.h"
#include "formats/hadamard.h"
#include "formats/quantize.h"
#include "kernels/cpu/cpu_backend.h"
#include "kernels/cpu/tier.h"

namespace mxtape {
namespace {

/// What a test tensor is made of. Rare blocks take other ways through the kernels than common ones.
enum class Content { normal, spread, specials };

std::vector<float> content(Content kind, std::int64_t count, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> x(static_cast<std::size_t>(count));
  for (float& v : x) v = normal(random);
  if (kind == Content::normal) return x;
  // Runs of 1 to 80 elements share an exponent from all that f32 has; some runs are zero.
  for (std::size_t i = 0; i < x.size();) {
    const std::size_t end = std::min(x.size(), i + 1 + random() % 80);
    const int exponent = random() % 4 ? int(random() % 40) - 20 : int(random() % 290) - 150;
    const bool zero = random() % 8 == 0;
    for (; i < end; ++i) x[i] = zero ? std::copysign(0.0f, x[i]) : std::ldexp(x[i], exponent);
  }
  if (kind == Content::spread) return x;
  const float special[] = {std::nanf(""),   -std::nanf(""), INFINITY,   -INFINITY,
                           0x1.fffffep127f, -0x1p-149f,     0x1.5p-134f};
  for (std::size_t i = 0; i < x.size(); i += 1 + random() % 200)
    x[i] = special[random() % std::size(special)];
  return x;
}

struct Case {
  std::string quantizer;
  std::int64_t rows, cols;
  Content kind = Content::normal;
};

bool same(float a, float b) { return bits_of(a) == bits_of(b) || (std::isnan(a) && std::isnan(b)); }

class CpuQuantize : public testing::Test {
 protected:
  ~CpuQuantize() override {
    cpu::set_tier(best);
    set_threads(threads_before);
  }

  QuantizedCopy copy_for(const Quantizer& q, Axis axis, Shape shape) {
    QuantizedCopy copy{.quantizer = q, .axis = axis};
    copy.values = backend.empty(shape, q.operand_dtype());
    if (q.has_multiplier()) copy.multiplier = backend.empty({1});
    return copy;
  }

  /// Both copies in one call equal the definition, the multiplier too.
  void expect_definition(const Case& c, const DrawKey& key) {
    const Quantizer q = parse_quantizer(c.quantizer);
    const Shape shape{c.rows, c.cols};
    const Tensor x = backend.empty(shape);
    const auto host = content(c.kind, c.rows * c.cols, key.seed);
    backend.upload(x, host.data());
    QuantizedCopy copies[] = {copy_for(q, Axis::cols, shape), copy_for(q, Axis::rows, shape)};
    backend.quantize(copies, x, key);
    std::vector<float> want(host.size());
    for (const QuantizedCopy& copy : copies) {
      const float multiplier =
          quantize_reference(want.data(), host.data(), c.rows, c.cols, copy.axis, q, key);
      EXPECT_TRUE(!copy.multiplier || same(*copy.multiplier.data(), multiplier)) << c.quantizer;
      int differences = 0;
      for (std::size_t i = 0; i < host.size(); ++i) {
        const bool narrow = copy.values.dtype() == DType::bf16;
        const float got = narrow ? to_f32(copy.values.data<bf16>()[i]) : copy.values.data()[i];
        const float wanted = narrow ? to_f32(to_bf16(want[i])) : want[i];
        if (same(got, wanted) || ++differences > 3) continue;
        ADD_FAILURE() << c.quantizer << " along " << (copy.axis == Axis::cols ? "rows" : "columns") << " of ["
                      << c.rows << ", " << c.cols << "] at row " << i / std::size_t(c.cols) << ", column "
                      << i % std::size_t(c.cols) << ": x " << host[i] << ", got " << got << ", want "
                      << wanted << " (seed " << key.seed << ", " << cpu::name_of(cpu::tier()) << ")";
      }
      if (differences) return;
    }
  }

  const cpu::Tier best = cpu::tier();
  const int threads_before = threads();
  CpuBackend backend;
};

// Every way through the kernels: whole and ragged tiles, vectors and blocks, one row, one column.
const std::vector<std::array<std::int64_t, 2>> shapes{{64, 256}, {1, 1},    {1, 33},  {33, 1},
                                                      {70, 300}, {128, 96}, {65, 47}, {3, 2500}};

TEST_F(CpuQuantize, EqualsTheDefinitionForEveryPresetRuleAndRoundingOnEveryTier) {
  std::vector<std::string> quantizers{"mxfp8_e4m3", "mxfp8_e5m2", "mxfp6_e3m2", "mxfp6_e2m3",
                                      "mxfp4",      "mxint8",     "nvfp4"};
  for (const char* element : {"e2m1", "e4m3", "int4"})
    for (const char* rule : {"floor", "ceil", "even", "rceil", "rfloor"})
      for (const char* round : {"even", "away", "down", "zero", "stochastic"})
        quantizers.push_back(std::string(element) + " block=32 scale=e8m0 rule=" + rule + " round=" + round);
  std::uint64_t seed = 1;
  for (const cpu::Tier tier : {cpu::Tier::baseline, cpu::Tier::avx2, cpu::Tier::avx512}) {
    if (!cpu::has_tier(tier)) continue;
    cpu::set_tier(tier);
    for (const std::string& q : quantizers)
      for (const Content kind : {Content::normal, Content::spread, Content::specials}) {
        const auto [rows, cols] = shapes[seed % shapes.size()];
        expect_definition({q, rows, cols, kind}, {.seed = seed++});
        if (HasFailure()) return;
      }
  }
}

// Options without a vector loop, or with a way of their own through one.
TEST_F(CpuQuantize, EqualsTheDefinitionForUncommonOptions) {
  const char* const quantizers[] = {"bf16",
                                    "bf16 round=stochastic",
                                    "e4m3",
                                    "f16",
                                    "mxfp4 block=16",
                                    "mxfp4 block=64",
                                    "mxfp4 block=48",
                                    "mxfp4 block=7",
                                    "mxfp4 block=axis",
                                    "mxfp4 block=tensor",
                                    "mxfp4 block=32x32",
                                    "mxfp8_e4m3 block=16x64",
                                    "mxfp4 block=5x3",
                                    "nvfp4 block=16x16",
                                    "nvfp4 round=stochastic",
                                    "nvfp4 4o6",
                                    "mxfp4 alpha=0.75 round=stochastic",
                                    "mxfp4 scale=e5m0",
                                    "mxfp4 scale=e4m0 overflow=nan",
                                    "mxfp4 scale=f32",
                                    "mxfp4 offset=fp16",
                                    "mxfp4 flush",
                                    "mxint8 range=full",
                                    "e3m0 scale=e8m0 block=32",
                                    "e3m0 scale=e8m0 block=32 tie=code",
                                    "e5m6 scale=e8m0 block=32",
                                    "e7m6 scale=e8m0 block=32",
                                    "mxfp4 round=stochastic sr.bits=8",
                                    "mxfp4 round=stochastic sr.bits=20",
                                    "mxint8 round=stochastic",
                                    "bf16 scale=e8m0 block=32"};
  std::uint64_t seed = 1000;
  for (const char* q : quantizers)
    for (const Content kind : {Content::normal, Content::spread, Content::specials})
      for (const auto [rows, cols] : shapes) {
        expect_definition({q, rows, cols, kind}, {.seed = seed++, .first_element = seed % 3 ? seed : 0});
        if (HasFailure()) return;
      }
}

TEST_F(CpuQuantize, TheNumberOfThreadsChangesNoBit) {
  const Shape shape{500, 700};
  const Tensor x = backend.empty(shape);
  backend.normal(x, 1, {.seed = 3});
  for (const char* text : {"mxfp4 round=stochastic", "nvfp4", "mxfp4 block=48", "bf16"}) {
    std::vector<std::vector<std::uint16_t>> values;
    std::vector<std::vector<float>> sums;
    for (const int count : {1, 2, 3}) {
      set_threads(count);
      QuantizedCopy copies[] = {copy_for(parse_quantizer(text), Axis::cols, shape),
                                copy_for(parse_quantizer(text), Axis::rows, shape)};
      const Tensor column_sums = backend.empty({700});
      backend.quantize(copies, x, {.seed = 4}, column_sums);
      auto& all = values.emplace_back();
      for (const QuantizedCopy& copy : copies)
        for (const bf16 v : copy.values.host<bf16>()) all.push_back(v.bits);
      sums.emplace_back(column_sums.host().begin(), column_sums.host().end());
    }
    EXPECT_EQ(values[0], values[1]) << text;
    EXPECT_EQ(values[0], values[2]) << text;
    EXPECT_EQ(sums[0], sums[1]) << text;
    EXPECT_EQ(sums[0], sums[2]) << text;
  }
}

TEST_F(CpuQuantize, ColumnSumsAreTheSameWhateverTheCopiesAndTiersAndAddToWhatWasThere) {
  const Shape shape{1000, 333};
  const Tensor x = backend.empty(shape);
  backend.normal(x, 1, {.seed = 5});
  const Tensor want = backend.empty({333}), got = backend.empty({333});
  backend.quantize({}, x, {}, want);
  for (std::int64_t c = 0; c < 333; ++c) {
    double exact = 0, magnitudes = 0;
    for (std::int64_t r = 0; r < 1000; ++r)
      exact += x.data()[r * 333 + c], magnitudes += std::fabs(x.data()[r * 333 + c]);
    // Strips of 32 rows, then 32 strips: 62 additions deep (Higham, section 4.2).
    ASSERT_NEAR(want.data()[c], exact, 63 * 0x1p-24 * magnitudes) << c;
  }
  for (const cpu::Tier tier : {cpu::Tier::baseline, cpu::Tier::avx2, cpu::Tier::avx512}) {
    if (!cpu::has_tier(tier)) continue;
    cpu::set_tier(tier);
    for (const char* text : {"mxfp4", "mxfp4 block=64", "bf16"}) {
      QuantizedCopy copy = copy_for(parse_quantizer(text), Axis::rows, shape);
      backend.fill(got, 1);
      backend.quantize({&copy, 1}, x, {}, got, Write::accumulate);
      for (std::int64_t c = 0; c < 333; ++c) ASSERT_EQ(got.data()[c], 1 + want.data()[c]) << text;
    }
  }
}

TEST_F(CpuQuantize, RotatedCopiesAreTheDefinitionsOfRotationAndQuantizerInTurn) {
  std::uint64_t seed = 1;
  for (const cpu::Tier tier : {cpu::Tier::baseline, cpu::Tier::avx2, cpu::Tier::avx512}) {
    if (!cpu::has_tier(tier)) continue;
    cpu::set_tier(tier);
    for (const std::int32_t size : {2, 8, 16, 32, 256})
      for (const auto [rows, cols] : shapes)
        for (const Axis axis : {Axis::cols, Axis::rows}) {
          const Quantizer q = mxfp4;
          const Tensor x = backend.empty({rows, cols});
          backend.normal(x, 1, {.seed = seed});
          QuantizedCopy copy = copy_for(q, axis, {rows, cols});
          copy.rotation = {size, seed % 2 ? SignsPer::run : SignsPer::none};
          copy.signs = {.seed = seed++, .purpose = Purpose::hadamard_signs};
          backend.quantize({&copy, 1}, x, {});
          std::vector<float> want(x.host().begin(), x.host().end());
          rotate_reference(want.data(), want.data(), rows, cols, axis, copy.rotation, copy.signs);
          quantize_reference(want.data(), want.data(), rows, cols, axis, q, {});
          for (std::size_t i = 0; i < want.size(); ++i)
            ASSERT_EQ(to_f32(copy.values.data<bf16>()[i]), want[i])
                << size << " on [" << rows << ", " << cols << "] at " << i;
        }
  }
}

TEST_F(CpuQuantize, NothingIsWrittenOutsideTheCopies) {
  constexpr std::int64_t guard = 64;
  for (const auto [rows, cols] : shapes)
    for (const Axis axis : {Axis::cols, Axis::rows}) {
      const Tensor x = backend.empty({rows, cols}),
                   memory = backend.empty({rows * cols + 2 * guard}, DType::bf16);
      backend.normal(x, 1, {.seed = 6});
      backend.fill(memory, 77);
      QuantizedCopy copy{.quantizer = mxfp4, .axis = axis};
      copy.values =
          Tensor(std::shared_ptr<void>(std::make_shared<Tensor>(memory), memory.data<bf16>() + guard),
                 {rows, cols}, DType::bf16);
      backend.quantize({&copy, 1}, x, {});
      for (std::int64_t i = 0; i < guard; ++i) {
        ASSERT_EQ(to_f32(memory.data<bf16>()[i]), 77) << i;
        ASSERT_EQ(to_f32(memory.data<bf16>()[guard + rows * cols + i]), 77) << i;
      }
    }
}

TEST_F(CpuQuantize, AMissingMultiplierOrAWrongTypeIsAnErrorThatNamesTheQuantizer) {
  const Tensor x = backend.empty({2, 16});
  QuantizedCopy copy{.quantizer = nvfp4, .values = backend.empty({2, 16}, DType::bf16)};
  EXPECT_THROW(backend.quantize({&copy, 1}, x, {}), Error);
  copy = {.quantizer = mxfp4, .values = backend.empty({2, 16})};
  EXPECT_THROW(backend.quantize({&copy, 1}, x, {}), Error);
}

}  // namespace
}  // namespace mxtape
