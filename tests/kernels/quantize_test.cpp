#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "core/parallel.h"
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
  const float special[] = {std::nanf(""), -std::nanf(""), INFINITY, -INFINITY, 0x1.fffffep127f, -0x1p-149f};
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
const std::vector<std::array<std::int64_t, 2>> shapes{{64, 256}, {1, 1},    {1, 33}, {33, 1},
                                                      {70, 300}, {128, 96}, {65, 47}};

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

}  // namespace
}  // namespace mxtape
