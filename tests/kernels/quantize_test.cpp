#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "core/error.h"
#include "core/parallel.h"
#include "formats/hadamard.h"
#include "formats/quantize.h"
#include "tests/support/device.h"
#include "tests/support/every_tier.h"
#include "tests/support/tensors.h"

namespace mxtape::test {
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

/// Makes `check` once per way that the device has of computing: the CPU's instruction sets.
template <class Check>
void on_every_tier(const Check& check) {
  if (tested_device != TestedDevice::cpu) return check();
  const cpu::Tier best = cpu::tier();
  for (const cpu::Tier tier : tiers_of_this_machine()) {
    cpu::set_tier(tier);
    check();
  }
  cpu::set_tier(best);
}

class Quantize : public testing::Test {
 protected:
  ~Quantize() override { set_threads(threads_before); }

  QuantizedCopy copy_for(const Quantizer& q, Axis axis, Shape shape) {
    QuantizedCopy copy{.quantizer = q, .axis = axis};
    copy.values = device().empty(shape, q.operand_dtype());
    if (q.has_multiplier()) copy.multiplier = device().empty({1});
    return copy;
  }
  Tensor upload_as(DType dtype, Shape shape, std::vector<float>& values) {
    if (dtype == DType::f32) return upload(device(), shape, values);
    std::vector<bf16> narrow;
    for (float& v : values) v = to_f32(narrow.emplace_back(to_bf16(v)));
    return upload(device(), shape, narrow);
  }
  Tensor normal(Shape shape, std::uint64_t seed) {
    const Tensor x = device().empty(shape);
    device().normal(x, 1, {.seed = seed, .purpose = Purpose::initialisation});
    return x;
  }

  void expect_copy(const QuantizedCopy& copy, const std::vector<float>& x, const DrawKey& key) {
    const std::int64_t rows = copy.values.rows(), cols = copy.values.cols();
    const std::string text = to_text(copy.quantizer);
    std::vector<float> want(x.size());
    const float multiplier =
        quantize_reference(want.data(), x.data(), rows, cols, copy.axis, copy.quantizer, key);
    EXPECT_TRUE(!copy.multiplier || same(download(device(), copy.multiplier)[0], multiplier)) << text;
    const bool narrow = copy.values.dtype() == DType::bf16;
    const std::vector<float> got = download(device(), copy.values);
    int differences = 0;
    for (std::size_t i = 0; i < x.size(); ++i) {
      const float wanted = narrow ? to_f32(to_bf16(want[i])) : want[i];
      if (same(got[i], wanted) || ++differences > 3) continue;
      ADD_FAILURE() << text << " along " << (copy.axis == Axis::cols ? "rows" : "columns") << " of [" << rows
                    << ", " << cols << "] at row " << i / std::size_t(cols) << ", column "
                    << i % std::size_t(cols) << ": x " << x[i] << ", got " << got[i] << ", want " << wanted
                    << " (seed " << key.seed << ", " << cpu::name_of(cpu::tier()) << ")";
    }
  }

  /// Both copies in one call, or one alone, equal the definition, the multiplier too.
  void expect_definition(const Case& c, const DrawKey& key, bool alone = false) {
    const Quantizer q = parse_quantizer(c.quantizer);
    const Shape shape{c.rows, c.cols};
    auto host = content(c.kind, c.rows * c.cols, key.seed);
    const Tensor x = upload_as(key.seed % 2 ? DType::f32 : DType::bf16, shape, host);
    QuantizedCopy copies[] = {copy_for(q, Axis::cols, shape), copy_for(q, Axis::rows, shape)};
    if (alone) {
      for (QuantizedCopy& copy : copies) device().quantize({&copy, 1}, x, key);
    } else {
      device().quantize(copies, x, key);
    }
    for (const QuantizedCopy& copy : copies) expect_copy(copy, host, key);
  }

  const int threads_before = threads();
};

// Every way through the kernels: whole and ragged tiles, vectors and blocks, one row, one column.
const std::vector<std::array<std::int64_t, 2>> shapes{{64, 256}, {1, 1},    {1, 33},  {33, 1},
                                                      {70, 300}, {128, 96}, {65, 47}, {3, 2500}};

TEST_F(Quantize, EqualsTheDefinitionForEveryPresetRuleAndRoundingOnEveryTier) {
  std::vector<std::string> quantizers{"mxfp8_e4m3", "mxfp8_e5m2", "mxfp6_e3m2", "mxfp6_e2m3",
                                      "mxfp4",      "mxint8",     "nvfp4"};
  for (const char* element : {"e2m1", "e4m3", "int4"})
    for (const char* rule : {"floor", "ceil", "even", "rceil", "rfloor"})
      for (const char* round : {"even", "away", "down", "zero", "stochastic"})
        quantizers.push_back(std::string(element) + " block=32 scale=e8m0 rule=" + rule + " round=" + round);
  std::uint64_t seed = 1;
  on_every_tier([&] {
    for (const std::string& q : quantizers)
      for (const Content kind : {Content::normal, Content::spread, Content::specials}) {
        const auto [rows, cols] = shapes[seed / 2 % shapes.size()];  // f32 and bf16 each
        ++seed;
        expect_definition({q, rows, cols, kind}, {.seed = seed}, seed % 5 == 0);
        if (HasFailure()) return;
      }
  });
}

// Options without a vector loop, or with a way of their own through one.
TEST_F(Quantize, EqualsTheDefinitionForUncommonOptions) {
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
        ++seed;
        expect_definition({q, rows, cols, kind}, {.seed = seed, .first_element = seed % 3 ? seed : 0});
        if (HasFailure()) return;
      }
}

TEST_F(Quantize, TheNumberOfThreadsChangesNoBit) {
  if (tested_device != TestedDevice::cpu) GTEST_SKIP() << "threads are the CPU's";
  const Shape shape{500, 700};
  const Tensor x = normal(shape, 3);
  for (const char* text : {"mxfp4 round=stochastic", "nvfp4", "mxfp4 block=48", "bf16"}) {
    std::vector<std::vector<float>> values, sums;
    for (const int count : {1, 2, 3}) {
      set_threads(count);
      QuantizedCopy copies[] = {copy_for(parse_quantizer(text), Axis::cols, shape),
                                copy_for(parse_quantizer(text), Axis::rows, shape)};
      const Tensor column_sums = device().empty({700});
      device().quantize(copies, x, {.seed = 4}, column_sums);
      auto& all = values.emplace_back();
      for (const QuantizedCopy& copy : copies) append(all, download(device(), copy.values));
      sums.push_back(download(device(), column_sums));
    }
    EXPECT_EQ(values[0], values[1]) << text;
    EXPECT_EQ(values[0], values[2]) << text;
    EXPECT_EQ(sums[0], sums[1]) << text;
    EXPECT_EQ(sums[0], sums[2]) << text;
  }
}

TEST_F(Quantize, ColumnSumsAreTheSameWhateverTheCopiesAndTiersAndAddToWhatWasThere) {
  for (const auto [rows, cols] : {std::array{1000, 133}, {1, 5}, {33, 64}, {2100, 8}})
    for (const DType dtype : {DType::f32, DType::bf16}) {
      const Shape shape{rows, cols};
      auto host = normals(shape.count(), 5);
      const Tensor x = upload_as(dtype, shape, host), sums = device().empty({cols});
      device().quantize({}, x, {}, sums);
      const auto want = download(device(), sums);
      const std::int64_t strips = (rows + 31) / 32;
      for (std::int64_t c = 0; c < cols; ++c) {
        double exact = 0, magnitudes = 0;
        for (std::int64_t r = 0; r < rows; ++r) {
          exact += double(host[std::size_t(r * cols + c)]);
          magnitudes += std::fabs(double(host[std::size_t(r * cols + c)]));
        }
        // Strips of 32 rows, then the strips: at most so many additions deep (Higham, section 4.2).
        ASSERT_NEAR(want[std::size_t(c)], exact, double(32 + strips) * 0x1p-24 * magnitudes) << c;
      }
      on_every_tier([&] {
        for (const char* text : {"mxfp4", "mxfp4 block=64", "bf16"}) {
          QuantizedCopy copy = copy_for(parse_quantizer(text), Axis::rows, shape);
          device().fill(sums, 1);
          device().quantize({&copy, 1}, x, {}, sums, Write::accumulate);
          const auto got = download(device(), sums);
          for (std::size_t c = 0; c < want.size(); ++c) ASSERT_EQ(got[c], 1 + want[c]) << text;
        }
      });
    }
}

TEST_F(Quantize, TwoDifferentQuantizersInOneCallAreEachTheirOwnDefinition) {
  const char* const pairs[][2] = {{"mxfp4", "mxfp8_e4m3 block=16"},
                                  {"mxfp4 round=stochastic", "mxint8 round=stochastic"},
                                  {"mxfp4 round=stochastic", "mxfp4 round=stochastic sr.bits=8"},
                                  {"nvfp4", "mxfp4 round=stochastic"},
                                  {"nvfp4 round=stochastic", "mxfp4 alpha=0.75 round=stochastic"},
                                  {"mxfp4 round=away", "mxint8 range=full round=stochastic"},
                                  {"bf16", "mxfp4"},
                                  {"mxfp4 block=48", "mxfp4"}};
  std::uint64_t seed = 1;
  for (const auto& pair : pairs)
    for (const auto [rows, cols] : shapes) {
      const Shape shape{rows, cols};
      auto host = content(Content::spread, rows * cols, seed);
      const Tensor x = upload_as(seed % 2 ? DType::f32 : DType::bf16, shape, host);
      const DrawKey key{.seed = seed++, .first_element = seed % 3 ? 8 * seed : 0};
      QuantizedCopy copies[] = {copy_for(parse_quantizer(pair[0]), Axis::cols, shape),
                                copy_for(parse_quantizer(pair[1]), Axis::rows, shape)};
      if (seed % 2) std::swap(copies[0], copies[1]);
      device().quantize(copies, x, key);
      for (const QuantizedCopy& copy : copies) expect_copy(copy, host, key);
      if (HasFailure()) return;
    }
}

// Scales of square tiles are the same along both axes; what is left to differ are the draws.
TEST_F(Quantize, BothCopiesOfAnElementUseTheSameSixteenBits) {
  const Quantizer q = parse_quantizer("mxfp4 block=32x32 round=stochastic");
  for (const std::uint64_t first : {0, 8, 3}) {
    const Shape shape{64, 96};
    QuantizedCopy copies[] = {copy_for(q, Axis::cols, shape), copy_for(q, Axis::rows, shape)};
    device().quantize(copies, normal(shape, 1), {.seed = 2, .first_element = first});
    EXPECT_EQ(download(device(), copies[0].values), download(device(), copies[1].values));
  }
}

TEST_F(Quantize, AKeyThatFollowsAClockDrawsAsItsStepSays) {
  const Shape shape{33, 40};
  auto host = normals(shape.count(), 9);
  const Tensor x = upload(device(), shape, host);
  for (const Clock clock : {Clock::pass, Clock::update}) {
    device().set_clocks(7, 5);
    const DrawKey key{.seed = 1, .step = clock == Clock::pass ? 7u : 5u, .clock = clock};
    QuantizedCopy copy = copy_for(parse_quantizer("mxfp4 round=stochastic"), Axis::cols, shape);
    device().quantize({&copy, 1}, x, key);
    expect_copy(copy, host, key);
  }
}

// What a step records it repeats with the clocks of the day: the draws of a recorded call follow them.
TEST_F(Quantize, ARepeatedCallDrawsAnewWhenTheClockGoesOn) {
  const Shape shape{33, 40};
  auto host = normals(shape.count(), 10);
  const Tensor x = upload(device(), shape, host);
  QuantizedCopy copies[] = {copy_for(parse_quantizer("mxfp4 round=stochastic"), Axis::cols, shape),
                            copy_for(parse_quantizer("mxfp4 block=48 round=stochastic"), Axis::rows, shape)};
  for (copies[0].rotation = {16, SignsPer::step}; const std::uint32_t pass : {3u, 4u, 5u, 9u}) {
    device().set_clocks(pass, 0);
    const DrawKey key{.seed = 1, .step = pass, .clock = Clock::pass};
    copies[0].signs = {.seed = 2, .purpose = Purpose::hadamard_signs, .step = pass, .clock = Clock::pass};
    device().repeat("quantize", [&] {
      device().quantize(copies, x, key);
      return std::vector<Tensor>{};
    });
    auto rotated = host;
    rotate_reference(rotated.data(), rotated.data(), 33, 40, Axis::cols, copies[0].rotation, copies[0].signs);
    expect_copy(copies[0], rotated, key);
    expect_copy(copies[1], host, key);
  }
}

TEST_F(Quantize, RotatedCopiesAreTheDefinitionsOfRotationAndQuantizerInTurn) {
  std::uint64_t seed = 1;
  on_every_tier([&] {
    for (const std::int32_t size : {2, 8, 16, 32, 256})
      for (const auto [rows, cols] : shapes)
        for (const Axis axis : {Axis::cols, Axis::rows}) {
          auto host = normals(rows * cols, unsigned(seed));
          const Tensor x = upload_as(seed % 3 ? DType::f32 : DType::bf16, {rows, cols}, host);
          QuantizedCopy copy = copy_for(seed % 4 ? mxfp4 : nvfp4, axis, {rows, cols});
          copy.rotation = {size, seed % 2 ? SignsPer::run : SignsPer::none};
          copy.signs = {.seed = seed++, .purpose = Purpose::hadamard_signs};
          device().quantize({&copy, 1}, x, {});
          rotate_reference(host.data(), host.data(), rows, cols, axis, copy.rotation, copy.signs);
          expect_copy(copy, host, {});
          if (HasFailure()) return;
        }
  });
}

TEST_F(Quantize, NothingIsWrittenOutsideTheCopies) {
  for (const std::int64_t guard : {64, 3})  // aligned, and not
    for (const auto [rows, cols] : shapes)
      for (const Axis axis : {Axis::cols, Axis::rows}) {
        const Tensor memory = device().empty({rows * cols + 2 * guard}, DType::bf16);
        device().fill(memory, 77);
        QuantizedCopy copy{.quantizer = mxfp4, .axis = axis};
        copy.values =
            Tensor(std::shared_ptr<void>(std::make_shared<Tensor>(memory), memory.data<bf16>() + guard),
                   {rows, cols}, DType::bf16);
        auto host = normals(rows * cols, 6);
        device().quantize({&copy, 1}, upload(device(), {rows, cols}, host), {});
        expect_copy(copy, host, {});
        const auto all = download(device(), memory);
        for (std::int64_t i = 0; i < guard; ++i) {
          ASSERT_EQ(all[std::size_t(i)], 77) << i;
          ASSERT_EQ(all[std::size_t(guard + rows * cols + i)], 77) << i;
        }
      }
}

TEST_F(Quantize, AMissingMultiplierOrAWrongTypeIsAnErrorThatNamesTheQuantizer) {
  const Tensor x = device().empty({2, 16});
  QuantizedCopy copy{.quantizer = nvfp4, .values = device().empty({2, 16}, DType::bf16)};
  EXPECT_THROW(device().quantize({&copy, 1}, x, {}), Error);
  copy = {.quantizer = mxfp4, .values = device().empty({2, 16})};
  EXPECT_THROW(device().quantize({&copy, 1}, x, {}), Error);
}

}  // namespace
}  // namespace mxtape::test
