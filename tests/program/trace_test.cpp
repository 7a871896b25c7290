// What is multiplied is what was asked for, observed: check --trace, and the record of a run.
#include "program/run/trace.h"

#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "program/run/profile.h"
#include "recipes/shipped.h"
#include "tests/program/program_fixture.h"

namespace mxtape {
namespace {

Recipe small(Recipe r) {
  r.model.vocabulary = 20;
  r.model.layers = 2, r.model.heads = 2, r.model.width = 32, r.model.context = 16;
  r.schedule.warmup_steps = 0;
  return r;
}

Trace::Found trace_of(const Recipe& recipe) {
  const auto device = make_backend("cpu");
  Trace trace;
  ObservingBackend traced(*device, {&trace});
  const TokenFile tokens = random_tokens(recipe);
  Trainer trainer(traced, recipe, tokens);
  trace.start();
  trainer.step();
  return trace.stop();
}

TEST(Trace, EveryShippedPrecisionRunsAsItsTableSays) {
  int traced = 0;
  for (const auto& shipped : shipped_recipes()) {
    const std::string name(shipped.name);
    if (!name.starts_with("shakespeare-") || name.find("6x384") != std::string::npos) continue;
    for (const auto& [activations, gemm] : {std::pair{ActivationType::f32, GemmChoice::library},
                                            {ActivationType::bf16, GemmChoice::library},
                                            {ActivationType::f32, GemmChoice::integer},
                                            {ActivationType::bf16, GemmChoice::integer}}) {
      Recipe recipe = small(read_recipe(name));
      recipe.compute.activations = activations;
      recipe.compute.gemm = gemm;
      const TraceReport report = trace_recipe(recipe);
      EXPECT_TRUE(report.differences.empty()) << name << ": " << report.differences.front();
      EXPECT_EQ(report.gemms, 3 * (2 * 4 + 1) * report.phases) << name;
      EXPECT_EQ(report.attentions, 2 * report.phases) << name;
      ++traced;
    }
  }
  EXPECT_GT(traced, 20);
}

TEST(Trace, EveryPrecisionFragmentRunsAsItsTableSaysOnOneModel) {
  int traced = 0;
  for (const auto& shipped : shipped_recipes()) {
    const std::string name(shipped.name);
    if (!name.starts_with("precision/")) continue;
    for (const char* compute : {"activations=f32", "activations=bf16", "saved=packed"}) {
      const Recipe recipe =
          small(read_recipe_onto(read_recipe("shakespeare"), name, {fmt::format("compute.{}", compute)}));
      const TraceReport report = trace_recipe(recipe);
      EXPECT_TRUE(report.differences.empty()) << name << ": " << report.differences.front();
      EXPECT_EQ(report.gemms, 3 * (2 * 4 + 1) * report.phases) << name;
      ++traced;
    }
  }
  EXPECT_GT(traced, 40);
}

TEST(Trace, WhatIsRotatedOrHasADerivativeButNoFormatRunsAsItsTableSays) {
  const auto rule = [](const char* slot, const char* format) {
    return fmt::format("{{layers=\"*\", slots=[\"{}\"], format=\"{}\"}}", slot, format);
  };
  for (const std::string& rules :
       {rule("fprop.hadamard", "hadamard=8"), rule("dgrad.hadamard", "hadamard=8"),
        rule("wgrad.hadamard", "hadamard=8"), rule("fprop.x.ste", "ste=mask"),
        rule("fprop.w.ste", "ste=mask"),
        rule("fprop.hadamard", "hadamard=8") + ", " + rule("wgrad.source", "source=shared"),
        rule("*.hadamard", "hadamard=8") + ", " + rule("wgrad.source", "source=forward")})
    for (const char* activations : {"f32", "bf16"}) {
      const Recipe recipe =
          small(read_recipe("shakespeare", {fmt::format("compute.activations={}", activations),
                                            "precision.rules=[" + rules + "]"}));
      const TraceReport report = trace_recipe(recipe);
      EXPECT_TRUE(report.differences.empty()) << rules << ": " << report.differences.front();
    }
}

TEST(Trace, ALlamaRunsAsItsTableSaysGainsOfHeadsIncluded) {
  for (const char* precision : {"precision/mxfp4", "precision/nvfp4", "precision/quartet2025"})
    for (const char* activations : {"f32", "bf16"}) {
      Recipe recipe =
          read_recipe_onto(read_recipe("llama-shakespeare"), precision,
                           {fmt::format("compute.activations={}", activations), "model.qk_norm=true",
                            "precision.rules=[{layers=\"*norm*\", slots=[\"norm.gain\"], format=\"mxfp6\"}, "
                            "{layers=\"blocks.*.attn\", slots=[\"*\"], format=\"mxfp8\"}]"});
      recipe = small(recipe);
      recipe.model.kv_heads = 1;
      const TraceReport report = trace_recipe(recipe);
      EXPECT_TRUE(report.differences.empty()) << precision << ": " << report.differences.front();
      EXPECT_EQ(report.gemms, 3 * (2 * 4 + 1) * report.phases);
      EXPECT_EQ(report.attentions, 2 * report.phases);
    }
  Recipe recipe = small(read_recipe("llama-shakespeare-mxfp4"));
  recipe.model.qk_norm = true;
  const auto trace = trace_of(recipe);
  PrecisionPlan plan = precision_plan(recipe, 0);
  plan.parameters.at("blocks.1.attn.k_norm") = mxfp4;
  plan.linear.at("blocks.0.mlp.gate_up").fprop_x = parse_quantizer("mxfp6");
  const std::vector<std::string> want{"blocks.0.mlp.gate_up fprop x: asked for mxfp6, ran mxfp4 rule=even",
                                      "blocks.1.attn.k_norm norm.gain: asked for mxfp4, which did not run"};
  EXPECT_EQ(differences(plan, trace, "cpu"), want);
}

TEST(Trace, RoundingsOfStrandsGradientsAreSeen) {
  Recipe recipe =
      small(read_recipe("shakespeare", {"train.strands=3",
                                        "precision.rules=[{layers=\"blocks.*\", slots=[\"sum.dw\"], "
                                        "format=\"mxfp8\"}, {layers=\"embedding\", slots=[\"sum.dw\"], "
                                        "format=\"bf16\"}]"}));
  EXPECT_EQ(trace_recipe(recipe).differences, std::vector<std::string>());
  recipe.train.strands = 2;
  const auto trace = trace_of(recipe);
  PrecisionPlan plan = precision_plan(recipe, 0);
  plan.sums.at("embedding") = mxfp4;
  EXPECT_EQ(differences(plan, trace, "cpu"),
            (std::vector<std::string>{"sum of strands sum.dw: asked for mxfp4, which did not run",
                                      "sum of strands sum.dw: ran bf16, which nobody asked for"}));
}

TEST(Trace, SourcesStraightThroughKindsAndRoundingsOutsideOfGemmsAreSeen) {
  for (const char* activations : {"f32", "bf16"}) {
    const auto rule = [](const char* layers, const char* slots, const char* format) {
      return fmt::format("{{layers=\"{}\", slots=[\"{}\"], format=\"{}\"}},", layers, slots, format);
    };
    std::string rules =
        rule("blocks.*", "*.x", "mxfp4 alpha=0.75") + rule("blocks.*", "*.w", "mxfp4") +
        rule("blocks.0.*", "dgrad.source", "source=forward") +
        rule("blocks.1.*", "*.source", "source=shared") + rule("blocks.0.mlp.*", "fprop.x.ste", "ste=mask") +
        rule("blocks.*", "fprop.w.ste", "ste=dge") + rule("blocks.1.mlp.up", "out", "mxfp6") +
        rule("blocks.1.mlp.down", "out", "bf16") + rule("*norm*", "*.gain", "mxfp8") +
        rule("embedding", "embedding.table", "nvfp4") + rule("blocks.0.attn", "scores", "mxfp8") +
        rule("blocks.1.attn.*", "wgrad.source", "source=forward") +
        rule("blocks.1.attn.*", "wgrad.x", "bf16") + rule("head", "*.source", "source=forward");
    const Recipe recipe =
        small(read_recipe("shakespeare", {"precision.rules=[" + rules + "]",
                                          fmt::format("compute.activations={}", activations)}));
    const TraceReport report = trace_recipe(recipe);
    for (const auto& line : report.differences) ADD_FAILURE() << activations << ": " << line;

    const auto trace = trace_of(recipe);
    PrecisionPlan plan = precision_plan(recipe, 0);
    plan.linear.at("blocks.0.attn.qkv").dgrad_source = OperandSource::master;
    plan.linear.at("blocks.0.mlp.up").x_ste = {};
    plan.linear.at("blocks.1.mlp.up").out = mxfp4;
    plan.parameters.at("norm") = {};
    plan.attention.at("blocks.0.attn").qk_s = {};
    const std::vector<std::string> want{
        "blocks.0.attn.qkv dgrad w: asked for mxfp4, ran mxfp4, from the forward's values",
        "blocks.0.mlp.up gradient: ran ste=mask of mxfp4 alpha=0.75, which nobody asked for",
        "blocks.1.mlp.up out: asked for mxfp4, which did not run",
        "blocks.1.mlp.up out: ran mxfp6, which nobody asked for",
        "norm norm.gain: ran mxfp8, which nobody asked for",
        "blocks.0.attn scores: asked for f32, ran mxfp8"};
    EXPECT_EQ(differences(plan, trace, "cpu"), want);
  }
}

TEST(Trace, ASlotThatRanInAnotherFormatThanAskedIsNamed) {
  const Recipe recipe = small(test::tiny_mxfp4_recipe(3));
  const auto trace = trace_of(recipe);
  PrecisionPlan plan = precision_plan(recipe, 0);
  EXPECT_TRUE(differences(plan, trace, "cpu").empty());
  plan.linear.at("blocks.1.mlp.up").wgrad_dy = mxfp8_e5m2;
  plan.linear.at("blocks.0.attn.out").fprop_rotation = {.size = 16};
  plan.attention.at("blocks.0.attn").pv_p = mxfp4;
  const std::vector<std::string> want{
      "blocks.0.attn.out fprop x: asked for mxfp4, hadamard=16 signs=run, ran mxfp4",
      "blocks.0.attn.out fprop w: asked for mxfp4 round=stochastic, hadamard=16 signs=run, ran mxfp4 "
      "round=stochastic",
      "blocks.1.mlp.up wgrad dy: asked for mxfp8_e5m2, ran mxfp4 round=stochastic",
      "blocks.0.attn pv.p: asked for mxfp4, ran f32"};
  EXPECT_EQ(differences(plan, trace, "cpu"), want);
}

TEST(Trace, AGemmThatDidNotRunOrThatNobodyAskedForIsNamed) {
  const Recipe recipe = small(test::tiny_recipe(3));
  auto trace = trace_of(recipe);
  trace.gemms["blocks.7.mlp.up"] = trace.gemms.at("head");
  trace.gemms.at("head").erase("wgrad");
  trace.mislabelled.push_back({"head", Slot::fprop_x, {mxfp4, {}}, {f32_passthrough, {}}});
  const std::vector<std::string> want{"head wgrad: did not run", "head fprop.x: says mxfp4, holds f32",
                                      "blocks.7.mlp.up: ran, and is in no plan"};
  EXPECT_EQ(differences(precision_plan(recipe, 0), trace, "cpu"), want);
}

TEST(Trace, MemoryThatWasWrittenAgainIsNoOperandAnyMoreWhateverItSaysOfItself) {
  const auto device = make_backend("cpu");
  Trace trace;
  ObservingBackend traced(*device, {&trace});
  const Tensor x = traced.empty({4, 32}), y = traced.empty({4, 32}, DType::bf16), c = traced.empty({4, 4});
  traced.fill(x, 1), trace.start(), traced.enter("layer", false);
  const auto multiply = [&](Rounded a, const Rounded& b, Slot slot) {
    a.site.slot = slot;
    traced.run(call::Gemm{.c = c, .a = a, .b = b});
  };
  Rounded copy = wanted(mxfp4, Axis::row, x.shape());
  copy.elements = y;
  traced.run(call::Quantize{{&copy, 1}, x});
  multiply(copy, copy, Slot::fprop_x);
  multiply(unrounded(y), copy, Slot::wgrad_dy);
  traced.copy(y, x);
  multiply(unrounded(y), unrounded(y), Slot::dgrad_dy);
  multiply(copy, unrounded(y), Slot::dgrad_dy);
  const auto found = trace.stop();
  EXPECT_EQ(found.gemms.at("layer").at("fprop").at(0).a.quantizer, mxfp4);
  EXPECT_EQ(found.gemms.at("layer").at("dgrad").at(0).a.quantizer, bf16_cast);
  const Trace::Side values{bf16_cast, {}}, four{mxfp4, {}};
  EXPECT_EQ(found.mislabelled,
            (std::vector<Trace::Mislabelled>{{"layer", Slot::wgrad_dy, {f32_passthrough, {}}, four},
                                             {"layer", Slot::dgrad_dy, four, values}}));
}

}  // namespace

namespace test {
namespace {

class TraceCommand : public ProgramTest {};

TEST_F(TraceCommand, CheckTraceSaysThatWhatRanIsWhatTheTableSays) {
  ASSERT_EQ(run({"check", "tiny.toml", "--trace"}), 0) << output_;
  EXPECT_TRUE(says("traced      27 GEMMs of linear layers and 2 attentions in 1 phase ran as the table says"))
      << output_;
  ASSERT_EQ(run({"check", "tiny.toml", "--trace", "--json"}), 0) << output_;
  const auto json = nlohmann::json::parse(output_);
  EXPECT_EQ(json["traced"]["gemms"], 27);
  EXPECT_TRUE(json["traced"]["differences"].empty());
}

TEST_F(TraceCommand, ARunRecordsThePrecisionThatEachPhaseWasSeenToRunIn) {
  ASSERT_EQ(run({"train", "tiny.toml", "--name=phases",
                 "--precision.phases=[{start=2, rules=[{format=\"mxfp8\", layers=\"head\"}]}]"}),
            0)
      << output_;
  std::stringstream text;
  text << std::ifstream(folder_ / "runs/phases/precision.txt").rdbuf();
  const std::string record = text.str();
  const auto second = record.find("seen in step 3\n");
  ASSERT_TRUE(record.starts_with("seen in step 1\n") && second != std::string::npos) << record;
  EXPECT_EQ(record.substr(0, second).find("mxfp8"), std::string::npos) << record;
  EXPECT_NE(record.substr(second).find("mxfp8"), std::string::npos) << record;
}

TEST_F(TraceCommand, APhaseThatStartsRightAfterAValidationIsSeenWhole) {
  ASSERT_EQ(run({"train", "tiny.toml", "--name=phases", "--train.eval_every=2",
                 "--precision.phases=[{start=2, rules=[{format=\"mxfp8\", layers=\"blocks.*.mlp.*\"}]}]"}),
            0)
      << output_;
}

}  // namespace
}  // namespace test
}  // namespace mxtape
