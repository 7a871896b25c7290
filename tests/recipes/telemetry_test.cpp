#include "recipes/telemetry.h"

#include "recipes/text/idle_keys.h"
#include "tests/recipes/recipe_files.h"

namespace mxtape {
namespace {

std::string refused_override(const std::vector<std::string>& overrides) {
  return refusal([&] { read_recipe("shakespeare", overrides); });
}

TEST(TelemetryRecipe, IsOffUnlessTheRecipeSaysOtherwise) {
  const Recipe r = read_recipe("shakespeare");
  EXPECT_EQ(r.telemetry.every, 0);
  for (std::int64_t step = 0; step < 10; ++step) EXPECT_FALSE(r.telemetry.measures(step));
  EXPECT_EQ(telemetry_bytes(r), 0);
}

TEST(TelemetryRecipe, MeasuresEveryMultipleAndWhatPatternsName) {
  const Recipe r = read_recipe("shakespeare", {"telemetry.every=5", "telemetry.layers=blocks.-1.mlp.*|head",
                                               "telemetry.slots=[\"fprop.*\", \"wgrad.dw\"]",
                                               "telemetry.formats=[\"mxfp8\", \"mxfp4 block=16\"]"});
  EXPECT_FALSE(r.telemetry.measures(4));
  EXPECT_TRUE(r.telemetry.measures(5));
  EXPECT_TRUE(r.telemetry.measures(10));
  const TelemetryPlan plan = telemetry_plan(r);
  const std::string last = fmt::format("blocks.{}.mlp.", r.model.layers - 1);
  EXPECT_EQ(plan.layers, (std::vector<std::string>{last + "up", last + "down", "head"}));
  EXPECT_EQ(plan.slots, (std::vector<std::string>{"fprop.x", "fprop.w", "wgrad.dw"}));
  EXPECT_EQ(plan.formats, (std::vector<Quantizer>{mxfp8_e4m3, parse_quantizer("mxfp4 block=16")}));
  EXPECT_TRUE(plan.wants("head", "fprop.x"));
  EXPECT_FALSE(plan.wants("head", "dgrad.dy"));
  EXPECT_FALSE(plan.wants("blocks.0.mlp.up", "fprop.x"));
}

TEST(TelemetryRecipe, WhatNamesNothingIsRefusedWithKeyAndOrigin) {
  EXPECT_TRUE(
      contains(refused_override({"telemetry.every=-1"}), "telemetry.every = -1; want an integer in [0, "));
  EXPECT_TRUE(contains(refused_override({"telemetry.evry=10"}), "did you mean 'telemetry.every'?"));
  EXPECT_TRUE(contains(refused_override({"telemetry.formats=[\"mxfp5\"]"}),
                       "telemetry.formats (command line): 'mxfp5': "));
  EXPECT_TRUE(contains(refused_override({"telemetry.formats=[\"mxfp8\", \"mxfp8_e4m3\"]"}),
                       "telemetry.formats (command line): 'mxfp8_e4m3' is there twice"));
  EXPECT_TRUE(contains(refused_override({"telemetry.slots=[\"fprop.y\"]"}),
                       "telemetry.slots (command line): 'fprop.y' names no slot; known: fprop.x fprop.w"));
  EXPECT_TRUE(
      contains(refused_override({"telemetry.layers=blocks.99.*"}), "telemetry.layers (command line)"));
  EXPECT_TRUE(contains(refused_override({"telemetry.sample=10"}),
                       "telemetry.sample = 10; want an integer in [1024, "));
  EXPECT_TRUE(
      contains(refused_override({"telemetry.window=0"}), "telemetry.window = 0; want an integer in [1, "));
}

TEST(TelemetryRecipe, ItsOtherKeysAreIdleWhileItIsOff) {
  const auto idle = [](const std::vector<std::string>& overrides) {
    for (const auto& [key, reason] : idle_keys(read_recipe("shakespeare", overrides)))
      if (key == "telemetry.formats") return std::string(reason);
    return std::string();
  };
  EXPECT_EQ(idle({"telemetry.formats=[\"mxfp8\"]"}), "telemetry.every is 0");
  EXPECT_EQ(idle({"telemetry.every=10"}), "");
}

TEST(IdleKeys, AreWhatOneStrandAndAFactorOfOneLeaveWithoutEffect) {
  const auto idle = [](const std::vector<std::string>& overrides, std::string_view wanted) {
    return std::ranges::count(idle_keys(read_recipe("shakespeare", overrides)), wanted, &IdleKey::key) > 0;
  };
  EXPECT_TRUE(idle({}, "train.verify_every"));
  EXPECT_FALSE(idle({"train.strands=2"}, "train.verify_every"));
  const std::string turned = "model.positions=rope", scaled = "model.rope_scaling=linear";
  EXPECT_TRUE(idle({turned, scaled}, "model.rope_scaling"));
  EXPECT_FALSE(idle({turned, scaled, "model.rope_factor=2"}, "model.rope_scaling"));
  EXPECT_FALSE(idle({turned}, "model.rope_scaling"));
}

}  // namespace
}  // namespace mxtape
