// train.gather = copies in runs of several processes.
#include "tests/program/devices/ranks.h"

namespace mxtape::test {
namespace {

using GatherRun = Ranks;

TEST_F(GatherRun, CopiesLeaveTheCheckpointsMetricsAndTelemetryOfValues) {
  const Words measured{"--telemetry.every=3", "--telemetry.window=2", R"(--telemetry.formats=["mxfp8_e4m3"])",
                       "--model.width=128"};
  const auto words = [&](const char* out, const char* gather) {
    Words all = train({fmt::format("--train.out={}", out), fmt::format("--train.gather={}", gather)});
    all.insert(all.end(), measured.begin(), measured.end());
    return all;
  };
  const auto text = [&](const char* out, const char* file) {
    std::string all;
    std::ifstream in(folder_ / out / "shared" / file);
    for (std::string line; std::getline(in, line);) all += line.substr(0, line.find("\"ms\"")) + "\n";
    return all;
  };
  const auto checkpoint = [&](const char* out, int step) {
    return (folder_ / fmt::format("{}/shared/checkpoints/step_{:08}.h5", out, step)).string();
  };
  ASSERT_EQ(on(2, words("values", "values")), 0) << output_;
  EXPECT_EQ(times("gather  "), 0) << output_;
  const std::string telemetry = text("values", "telemetry.jsonl"), metrics = text("values", "metrics.jsonl");
  ASSERT_NE(telemetry.find("oscillation"), std::string::npos);
  for (const auto& [count, out] : {std::pair{2, "two"}, std::pair{3, "three"}}) {
    ASSERT_EQ(on(count, words(out, "copies")), 0) << output_;
    EXPECT_TRUE(says("4 parameters as packed copies")) << output_;
    EXPECT_TRUE(says("1 as f32, the embedding reads it: tokens.weight")) << output_;
    for (const int step : {4, 8})
      EXPECT_EQ(run({"diff", checkpoint("values", step), checkpoint(out, step)}), 0) << output_;
    EXPECT_EQ(text(out, "telemetry.jsonl"), telemetry);
    EXPECT_EQ(text(out, "metrics.jsonl"), metrics);
  }
}

TEST_F(GatherRun, AResumeMayChangeIt) {
  ASSERT_EQ(on(2, train({"--name=whole"})), 0) << output_;
  ASSERT_EQ(on(2, train({"--train.gather=copies"})), 0) << output_;
  EXPECT_TRUE(same_checkpoint(last("whole"), last("shared"))) << output_;
  std::filesystem::remove(last("shared"));
  ASSERT_EQ(on(3, train({"--resume", "auto"})), 0) << output_;
  EXPECT_TRUE(same_checkpoint(last("whole"), last("shared"))) << output_;
}

TEST_F(GatherRun, CheckSaysWhatTravelsAndThatOneStrandHasNothingToGather) {
  ASSERT_EQ(run({"check", "shared.toml", "--train.gather=copies", "--devices", "2", "--json"}), 0) << output_;
  EXPECT_TRUE(says("\"parameters_as_copies\": 4")) << output_;
  EXPECT_TRUE(says("\"no linear layer's matrix\"")) << output_;
  ASSERT_EQ(run({"check", "shared.toml", "--train.gather=copies", "--train.strands=1"}), 0) << output_;
  EXPECT_TRUE(says("train.gather has no effect: train.strands is 1")) << output_;
  EXPECT_EQ(run({"check", "shared.toml", "--train.gather=codes"}), 2) << output_;
}

}  // namespace
}  // namespace mxtape::test
