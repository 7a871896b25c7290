#include "kernels/calls_rows.h"
#include "nn/config.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <filesystem>
#include <numbers>
#include <optional>

#include "kernels/observers/dry_backend.h"
#include "kernels/observers/finite.h"
#include "tests/support/closeness.h"
#include "tests/support/device.h"
#include "tests/support/safetensors.h"
#include "tests/support/tensors.h"

namespace mxtape {
namespace {

using namespace test;

// Powers of two and ratios of small numbers, whose frequencies can be told by hand.
TEST(Rope, FrequenciesGoDownFromOneByPowersOfTheta) {
  EXPECT_EQ(rope_frequencies({.theta = 16}, 8), (std::vector<float>{1, 0.5f, 0.25f, 0.125f}));
  EXPECT_EQ(rope_frequencies({.theta = 65536}, 4), (std::vector<float>{1, 1.0f / 256}));
}

TEST(Rope, LinearScalingDividesAllOfThem) {
  EXPECT_EQ(rope_frequencies({.theta = 16, .scaling = RopeScaling::linear, .factor = 4}, 8),
            (std::vector<float>{0.25f, 0.125f, 0.0625f, 0.03125f}));
}

TEST(Rope, Llama3ScalingKeepsFastTurnsDividesSlowOnesAndGoesBetween) {
  // Turns within 64 tokens: 10.2, 5.09, 2.55, 1.27, 0.64, 0.32; more than 4 stay, fewer than 1 are divided.
  const RopeConfig config{
      .theta = 64, .scaling = RopeScaling::llama3, .factor = 8, .low = 1, .high = 4, .original = 64};
  const std::vector<float> w = rope_frequencies(config, 12);
  ASSERT_EQ(w.size(), 6u);
  // The exponent is rounded, which counts ln 64 times at most, and so are powers, quotients and the mix.
  for (std::size_t i = 0; i < 6; ++i) {
    const double plain = std::pow(2, -double(i)), turns = 64 * plain / (2 * std::numbers::pi),
                 s = std::clamp((turns - 1) / 3, 0.0, 1.0);
    EXPECT_NEAR(w[i], (1 - s) * plain / 8 + s * plain, gamma(12) * plain) << i;
  }
}

TEST(Rope, AnglesAreProductsOfPositionAndFrequency) {
  const RopeAngles a = rope_angles({1, 0.5f}, 3, 2);
  const std::vector<float> angles{3, 1.5f, 4, 2};
  ASSERT_EQ(a.cos.size(), 4u);
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(a.cos[i], float(std::cos(double(angles[i])))) << i;
    EXPECT_EQ(a.sin[i], float(std::sin(double(angles[i])))) << i;
  }
}

TEST(Rope, TablesOfADeviceThatMerelyCountsAreNotComputed) {
  DryBackend nowhere;
  Finite finite;
  ObservingBackend around(nowhere, {&finite});
  EXPECT_TRUE(merely_counts(around));
  EXPECT_FALSE(merely_counts(device()));
  constexpr std::int64_t positions = std::int64_t{1} << 40;  // whose angles no memory holds
  const RotaryTables tables = make_rotary_tables(around, {}, 8, positions);
  EXPECT_EQ(tables.cos.shape(), (Shape{positions, 4}));
  EXPECT_EQ(nowhere.used_bytes(), 2 * 4 * 4 * positions);
}

TEST(Rope, TablesOnADeviceBeginAtPositionZero) {
  const RotaryTables tables = make_rotary_tables(device(), {}, 8, 5);
  EXPECT_EQ(tables.cos.shape(), (Shape{5, 4}));
  const RopeAngles want = rope_angles(rope_frequencies({}, 8), 0, 5);
  EXPECT_EQ(download(device(), tables.cos), want.cos);
  EXPECT_EQ(download(device(), tables.sin), want.sin);
}

RopeConfig config_of(const nlohmann::json& meta) {
  const std::string type = meta.at("rope_type");
  RopeConfig c{.theta = meta.at("rope_theta")};
  if (type == "linear") c.scaling = RopeScaling::linear, c.factor = meta.at("factor");
  if (type == "llama3") {
    c.scaling = RopeScaling::llama3;
    c.factor = meta.at("factor"), c.low = meta.at("low_freq_factor"), c.high = meta.at("high_freq_factor");
    c.original = meta.at("original_max_position_embeddings");
  }
  return c;
}

class RopeVectors : public testing::Test {
 protected:
  void SetUp() override {
    if (!std::filesystem::exists(path)) GTEST_SKIP() << path << " is not there";
    file.emplace(path);
    positions = file->values<std::int32_t>("positions");
  }
  const std::string path = MXTAPE_SHARED "/interop/rope.safetensors";
  std::optional<Safetensors> file;
  std::vector<std::int32_t> positions;
};

TEST_F(RopeVectors, FrequenciesAreTransformersButForTwoThatAreOneUlpAway) {
  int different = 0;
  for (const std::string& name : file->metadata_keys()) {
    const auto meta = nlohmann::json::parse(file->metadata(name));
    const auto want = file->values<float>(name + ".inv_freq");
    const auto got = rope_frequencies(config_of(meta), meta.at("head_dim"));
    ASSERT_EQ(got.size(), want.size());
    for (std::size_t i = 0; i < got.size(); ++i) {
      const int ulps = std::abs(std::bit_cast<std::int32_t>(got[i]) - std::bit_cast<std::int32_t>(want[i]));
      EXPECT_LE(ulps, 1) << name << " " << i;
      different += ulps != 0;
    }
  }
  EXPECT_LE(different, 2);
}

// Their cosine of the same angle may be an ulp from the rounded one: 2^-24 below 1.
TEST_F(RopeVectors, CosinesAndSinesOfTheirFrequenciesAreWithinAnUlp) {
  for (const std::string& name : file->metadata_keys()) {
    const auto w = file->values<float>(name + ".inv_freq"), cos = file->values<float>(name + ".cos"),
               sin = file->values<float>(name + ".sin");
    for (std::size_t p = 0; p < positions.size(); ++p) {
      const RopeAngles row = rope_angles(w, positions[p], 1);
      for (std::size_t i = 0; i < w.size(); ++i) {
        EXPECT_NEAR(row.cos[i], cos[p * w.size() + i], 0x1p-23) << name << " " << positions[p];
        EXPECT_NEAR(row.sin[i], sin[p * w.size() + i], 0x1p-23) << name << " " << positions[p];
      }
    }
  }
}

/// [1, heads, T, D] as rows [1, T, (heads + 2) D], one head of zeros for keys and one for values.
std::vector<float> as_rows(const std::vector<float>& q, std::size_t heads, std::size_t T, std::size_t D) {
  std::vector<float> x(T * (heads + 2) * D);
  for (std::size_t h = 0; h < heads; ++h)
    for (std::size_t t = 0; t < T; ++t)
      for (std::size_t d = 0; d < D; ++d) x[(t * (heads + 2) + h) * D + d] = q[(h * T + t) * D + d];
  return x;
}

TEST_F(RopeVectors, HeadsAreTurnedThereAndBackAsTransformersDoes) {
  for (const std::string& name : file->metadata_keys()) {
    const auto shape = file->shape(name + ".q");
    const auto heads = std::size_t(shape[1]), T = std::size_t(shape[2]), D = std::size_t(shape[3]);
    const Shape angles{shape[2], shape[3] / 2};
    const RotaryTables tables{upload(device(), angles, file->values<float>(name + ".cos")),
                              upload(device(), angles, file->values<float>(name + ".sin"))};
    const Tensor x = upload(device(), {1, shape[2], std::int64_t(heads + 2) * shape[3]},
                            as_rows(file->values<float>(name + ".q"), heads, T, D)),
                 dy = upload(device(), x.shape(), as_rows(file->values<float>(name + ".dy"), heads, T, D));
    device().run(call::Rotary{x, x, tables.cos, tables.sin, shape[1], 1});
    device().run(call::RotaryBackward{dy, dy, tables.cos, tables.sin, shape[1], 1});
    const auto expect = [&](const Tensor& got, const std::string& from, const std::string& to) {
      const auto in = as_rows(file->values<float>(from), heads, T, D);
      std::vector<double> bound;
      for (std::size_t i = 0; i < in.size(); ++i) {
        const std::size_t head = i / D * D, pair = head + (i - head + D / 2) % D;
        bound.push_back(2 * gamma(2) * (std::abs(in[i]) + std::abs(in[pair])));  // both are within gamma(2)
      }
      EXPECT_TRUE(
          within(download(device(), got), widened(as_rows(file->values<float>(to), heads, T, D)), bound))
          << to;
    };
    expect(x, name + ".q", name + ".rotated");
    expect(dy, name + ".dy", name + ".dq");
  }
}

}  // namespace
}  // namespace mxtape
