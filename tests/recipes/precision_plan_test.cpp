#include "autograd/slots.h"
#include "tests/recipes/recipe_files.h"

namespace mxtape {
namespace {

Recipe with_precision(const std::string& text) {
  return recipe_from_toml("model.layers = 3\n" + text, "r.toml");
}
std::string refused_plan(const std::string& text) {
  return refusal([&] { with_precision(text); });
}
constexpr Quantizer mxfp4_even = mx(e2m1, 32, ScaleRule::even);

TEST(PrecisionPlan, TheBroadKeysReachTheirSlotsAndNoOthers) {
  const auto plan =
      precision_plan(with_precision("[precision]\nweights = \"mxfp4\"\nactivations = \"mxfp8_e4m3\"\n"
                                    "gradients = \"mxfp6_e3m2\"\nattention = \"bf16\"\nhead = \"mxint8\"\n"),
                     0);
  ASSERT_EQ(plan.linear.size(), 13u);  // four in each of three blocks, and the head
  for (const auto& [name, q] : plan.linear) {
    const bool head = name == "head";
    EXPECT_EQ(q.fprop_w, head ? mxint8 : mxfp4) << name;
    EXPECT_EQ(q.dgrad_w, head ? mxint8 : mxfp4) << name;
    EXPECT_EQ(q.fprop_x, head ? mxint8 : mxfp8_e4m3) << name;
    EXPECT_EQ(q.wgrad_x, head ? mxint8 : mxfp8_e4m3) << name;
    EXPECT_EQ(q.dgrad_dy, head ? mxint8 : mxfp6_e3m2) << name;
    EXPECT_EQ(q.wgrad_dy, head ? mxint8 : mxfp6_e3m2) << name;
    EXPECT_EQ(q.fprop_rotation, Rotation{});
  }
  ASSERT_EQ(plan.attention.size(), 3u);
  for (const auto& [name, q] : plan.attention)
    for (const auto& slot : attention_slots) EXPECT_EQ(q.*slot.field, bf16_cast) << name << slot.name;
}

TEST(PrecisionPlan, ARuleChangesTheSlotsThatItNamesAndNothingElse) {
  const Recipe plain = with_precision("");
  const Recipe r = with_precision(
      "[[precision.rules]]\nlayers = \"blocks.1.mlp.*\"\nslots = [\"dgrad.*\"]\nformat = \"mxfp4 "
      "rule=even\"\n");
  const auto before = precision_plan(plain, 0), after = precision_plan(r, 0);
  EXPECT_EQ(before.attention, after.attention);
  for (const auto& [name, q] : after.linear) {
    LinearQuant want = before.linear.at(name);
    if (name == "blocks.1.mlp.up" || name == "blocks.1.mlp.down") want.dgrad_dy = want.dgrad_w = mxfp4_even;
    EXPECT_EQ(q, want) << name;
  }
}

TEST(PrecisionPlan, LaterRulesWin) {
  const auto plan =
      precision_plan(with_precision("[[precision.rules]]\nformat = \"mxfp4\"\n"
                                    "[[precision.rules]]\nlayers = \"head\"\nformat = \"bf16\"\n"
                                    "[[precision.rules]]\nslots = [\"*.w\"]\nformat = \"mxint8\"\n"),
                     0);
  EXPECT_EQ(plan.linear.at("head").fprop_x, bf16_cast);
  EXPECT_EQ(plan.linear.at("head").fprop_w, mxint8);
  EXPECT_EQ(plan.linear.at("blocks.2.attn.qkv").fprop_x, mxfp4);
  EXPECT_EQ(plan.attention.at("blocks.0.attn").qk_q, mxfp4);  // no layers, no slots: everything
}

TEST(PrecisionPlan, BlocksMayBeCountedFromTheEndAndPatternsJoined) {
  const auto plan = precision_plan(
      with_precision("[[precision.rules]]\nlayers = \"blocks.0.*|blocks.-1.*\"\nformat = \"bf16\"\n"), 0);
  for (const auto& [name, q] : plan.linear) {
    const bool hit = name.starts_with("blocks.0.") || name.starts_with("blocks.2.");
    EXPECT_EQ(q.wgrad_x, hit ? bf16_cast : f32_passthrough) << name;
  }
}

TEST(PrecisionPlan, ABlockNumberIsNoPrefixOfAnother) {
  const Recipe r = recipe_from_toml(
      "model.layers = 12\n[[precision.rules]]\nlayers = \"blocks.1.*\"\nformat = \"bf16\"\n", "r.toml");
  const auto plan = precision_plan(r, 0);
  EXPECT_EQ(plan.linear.at("blocks.1.mlp.up").fprop_w, bf16_cast);
  EXPECT_EQ(plan.linear.at("blocks.11.mlp.up").fprop_w, f32_passthrough);
}

TEST(PrecisionPlan, HadamardTextsGoToHadamardSlotsAndFormatsToTheOthers) {
  const auto plan = precision_plan(
      with_precision("[[precision.rules]]\nlayers = \"blocks.*\"\nslots = [\"wgrad.*\"]\nformat = \"mxfp4\"\n"
                     "[[precision.rules]]\nlayers = \"blocks.*\"\nslots = [\"wgrad.*\"]\n"
                     "format = \"hadamard=16 signs=step\"\n"),
      0);
  const LinearQuant& q = plan.linear.at("blocks.0.mlp.up");
  EXPECT_EQ(q.wgrad_rotation, (Rotation{16, SignsPer::step}));
  EXPECT_EQ(q.dgrad_rotation, Rotation{});
  EXPECT_EQ(q.wgrad_x, mxfp4);
}

std::string rule_of(const char* layers, const char* slots, const char* format) {
  return fmt::format("[[precision.rules]]\nlayers = \"{}\"\nslots = [\"{}\"]\nformat = \"{}\"\n", layers,
                     slots, format);
}

TEST(PrecisionPlan, SourcesAndStraightThroughKindsGoToTheirSlots) {
  const auto plan = precision_plan(
      with_precision(rule_of("blocks.*", "*", "mxfp4") + rule_of("blocks.*", "dgrad.*", "source=forward") +
                     rule_of("blocks.*", "fprop.*", "ste=mask") +
                     rule_of("blocks.*", "fprop.w.ste", "ste=dge k=3")),
      0);
  const LinearQuant& q = plan.linear.at("blocks.0.mlp.up");
  EXPECT_EQ(q.dgrad_source, OperandSource::forward);
  EXPECT_EQ(q.wgrad_source, OperandSource::master);
  EXPECT_EQ(q.x_ste, (StraightThrough{SteKind::mask}));
  EXPECT_EQ(q.w_ste, (StraightThrough{.kind = SteKind::dge, .k = 3}));
  EXPECT_EQ(q.dgrad_w, mxfp4);
  EXPECT_TRUE(contains(refused_plan(rule_of("blocks.*", "dgrad.w", "source=forward")),
                       "no slot of these layers matches 'dgrad.w'"));
  EXPECT_TRUE(contains(refused_plan(rule_of("blocks.*", "*", "source=foward")), "source=forward"));
  EXPECT_TRUE(contains(refused_plan(rule_of("blocks.*", "*", "ste=msk")), "did you mean 'mask'"));
}

TEST(PrecisionPlan, ASharedOperandIsRoundedAsTheForwardsAndNotRotatedForItsOwnGemm) {
  const auto shared = [&](const std::string& more) {
    return with_precision(rule_of("blocks.*", "fprop.*", "mxfp4") + rule_of("blocks.*", "dgrad.*", "mxfp8") +
                          rule_of("blocks.*", "wgrad.*", "f32") +
                          rule_of("blocks.*", "*.source", more.c_str()));
  };
  const LinearQuant both = precision_plan(shared("source=shared"), 0).linear.at("blocks.0.mlp.up");
  EXPECT_EQ(both.dgrad_w, mxfp4);
  EXPECT_EQ(both.wgrad_x, mxfp4);
  EXPECT_EQ(both.dgrad_dy, mxfp8_e4m3);
  const LinearQuant again = precision_plan(shared("source=forward"), 0).linear.at("blocks.0.mlp.up");
  EXPECT_EQ(again.dgrad_w, mxfp8_e4m3);
  EXPECT_EQ(again.dgrad_source, OperandSource::forward);
  EXPECT_EQ(again.wgrad_source, OperandSource::shared) << "not rounded again: the forward's values";
  EXPECT_EQ(again.wgrad_x, mxfp4);
  EXPECT_EQ(shared("source=shared").compute.gemm, GemmChoice::library) << "codes serve one axis";
  EXPECT_EQ(with_precision("").compute.gemm, GemmChoice::automatic);
  EXPECT_TRUE(
      contains(refused_plan("[compute]\ngemm = \"integer\"\n" + rule_of("blocks.*", "fprop.*", "mxfp4") +
                            rule_of("blocks.*", "*.source", "source=shared")),
               "codes, which serve one axis; want source=master or --compute.gemm=library"));
  const std::string refused = refused_plan(rule_of("blocks.*", "*.source", "source=shared") +
                                           rule_of("blocks.1.mlp.up", "wgrad.hadamard", "hadamard=16"));
  EXPECT_TRUE(contains(refused,
                       "blocks.1.mlp.up: wgrad.source is shared, and wgrad.hadamard is "
                       "'hadamard=16 signs=run'"))
      << refused;
}

TEST(PrecisionPlan, SlotsOutsideOfGemmsAreReachedByNameOnly) {
  const auto parameters = [](const std::string& text) {
    return precision_plan(with_precision(text), 0).parameters;
  };
  const auto all = precision_plan(with_precision("[[precision.rules]]\nformat = \"mxfp4\"\n" +
                                                 rule_of("*", "*", "mxfp8") + rule_of("*", "*.w", "mxfp6")),
                                  0);
  ASSERT_EQ(all.parameters.size(), 2 * 3 + 2u);
  for (const auto& [layer, q] : all.parameters) EXPECT_TRUE(q.is_identity()) << layer;
  for (const auto& [layer, q] : all.linear) EXPECT_TRUE(q.out.is_identity()) << layer;
  for (const auto& [layer, q] : all.attention) EXPECT_TRUE(q.qk_s.is_identity()) << layer;

  const auto gains = parameters(rule_of("blocks[-1:].*|norm", "*.gain", "mxfp8"));
  for (const auto& [layer, q] : gains)
    EXPECT_EQ(q == mxfp8_e4m3, layer == "norm" || layer.starts_with("blocks.2.")) << layer;
  EXPECT_EQ(parameters(rule_of("embedding", "embedding.table", "mxfp4")).at("embedding"), mxfp4);
  const auto plan = precision_plan(with_precision(rule_of("head", "out", "bf16")), 0);
  EXPECT_EQ(plan.linear.at("head").out, bf16_cast);
  EXPECT_EQ(plan.linear.at("head").fprop_x, f32_passthrough);
  const auto scores = precision_plan(with_precision(rule_of("blocks.1.attn", "scores", "mxfp8")), 0);
  EXPECT_EQ(scores.attention.at("blocks.1.attn").qk_s, mxfp8_e4m3);
  EXPECT_EQ(scores.attention.at("blocks.1.attn").qk_q, f32_passthrough);
  EXPECT_EQ(scores.attention.at("blocks.0.attn"), AttentionQuant{});
  EXPECT_TRUE(contains(refused_plan("[[precision.rules]]\nlayers = \"norm\"\nformat = \"mxfp4\"\n"),
                       "no slot of these layers matches '*' for format 'mxfp4'; slots: norm.gain"));
}

TEST(PrecisionPlan, APatternThatMatchesNothingIsRefusedWithTheKnownNames) {
  const std::string layer =
      refused_plan("[[precision.rules]]\nlayers = \"blocks.*.mpl.*\"\nformat = \"bf16\"\n");
  EXPECT_TRUE(contains(layer, "r.toml:2: no layer matches 'blocks.*.mpl.*'") &&
              contains(layer, "blocks.2.mlp.down"))
      << layer;
  const std::string one =
      refused_plan("[[precision.rules]]\nlayers = \"head|blocks.3.*\"\nformat = \"bf16\"\n");
  EXPECT_TRUE(contains(one, "no layer matches 'blocks.3.*'")) << one;
  const std::string slot = refused_plan(
      "[[precision.rules]]\nlayers = \"head\"\nslots = [\"fprop.*\", \"qk.*\"]\nformat = \"bf16\"\n");
  EXPECT_TRUE(contains(slot, "no slot of these layers matches 'qk.*'") && contains(slot, "wgrad.dy")) << slot;
  const std::string kind =
      refused_plan("[[precision.rules]]\nslots = [\"fprop.x\"]\nformat = \"hadamard=16\"\n");
  EXPECT_TRUE(contains(kind, "no slot of these layers matches 'fprop.x'") && contains(kind, "fprop.hadamard"))
      << kind;
}

TEST(PrecisionPlan, PhasesAddTheirRulesFromTheirStartOn) {
  const Recipe r = with_precision(
      "[precision]\nweights = \"mxfp4\"\n"
      "[[precision.phases]]\nstart = 200\n[[precision.phases.rules]]\nlayers = \"head\"\nformat = "
      "\"mxint8\"\n"
      "[[precision.phases]]\nstart = 100\n[[precision.phases.rules]]\nformat = \"bf16\"\n");
  EXPECT_EQ(plan_changes(r), (std::vector<std::int64_t>{0, 100, 200}));
  const auto weights = [&](std::int64_t step) {
    return precision_plan(r, step).linear.at("blocks.0.mlp.up").fprop_w;
  };
  const auto head = [&](std::int64_t step) { return precision_plan(r, step).linear.at("head").fprop_w; };
  EXPECT_EQ(weights(99), mxfp4);
  EXPECT_EQ(weights(100), bf16_cast);
  EXPECT_EQ(head(199), bf16_cast);
  EXPECT_EQ(head(200), mxint8);  // phases count by their start, not by their place in the file
}

}  // namespace
}  // namespace mxtape
