#include "recipes/text/precision_notes.h"

#include "recipes/shipped.h"
#include "tests/recipes/recipe_files.h"
#include "tests/support/allocations.h"

namespace mxtape {
namespace {

std::vector<std::string> notes_of(const std::string& text) {
  return precision_notes(
      recipe_from_toml("model.layers = 2\ntrain.steps = 100\nschedule.warmup_steps = 0\n" + text, "r.toml"));
}
const std::string stochastic =
    "[precision]\ngradients = \"mxfp4 rule=even round=stochastic\"\nhead = \"bf16\"\n";
std::string rule(const std::string& slots, const std::string& format, const char* kind = "precision.rules") {
  return fmt::format("[[{}]]\nlayers = \"blocks.0.*\"\nslots = [{}]\nformat = \"{}\"\n", kind, slots, format);
}

TEST(PrecisionNotes, AHeadThatTheBroadKeysLeaveInF32IsNoted) {
  const auto notes = notes_of("[precision]\nweights = \"mxfp4\"\ngradients = \"mxfp4\"\n");
  ASSERT_EQ(notes.size(), 1u);
  EXPECT_TRUE(contains(notes[0],
                       "precision.weights, gradients reach only the linear layers in blocks: the head "
                       "stays f32; precision.head sets it"))
      << notes[0];
  EXPECT_TRUE(notes_of("").empty()) << "all f32";
  EXPECT_TRUE(notes_of("[precision]\nweights = \"mxfp4\"\nhead = \"f32\"\n").empty()) << "it was said";
  EXPECT_TRUE(notes_of("[precision]\nweights = \"mxfp4\"\n[[precision.rules]]\nlayers = \"head\"\nformat = "
                       "\"mxfp4\"\n")
                  .empty())
      << "a rule reaches it";
}

TEST(PrecisionNotes, ARuleThatRoundsAStochasticGradientToNearestIsNoted) {
  const auto notes = notes_of(stochastic + rule("\"wgrad.*\"", "mxfp6"));
  ASSERT_EQ(notes.size(), 1u);
  EXPECT_TRUE(notes[0].starts_with("r.toml:7: this rule rounds wgrad.dy of 'blocks.0.*' to nearest (mxfp6"))
      << notes[0];
  EXPECT_TRUE(contains(notes[0],
                       "rounded stochastically before (mxfp4 rule=even round=stochastic); add "
                       "round=stochastic to its format"))
      << notes[0];
  const std::string phase =
      "[[precision.phases]]\nstart = 50\n" + rule("\"*.dy\"", "mxfp4", "precision.phases.rules");
  ASSERT_EQ(notes_of(stochastic + phase).size(), 1u);
  EXPECT_TRUE(contains(notes_of(stochastic + phase)[0], "dgrad.dy and wgrad.dy"));
}

TEST(PrecisionNotes, AFormatThatKeepsAGemmFromIntegersIsNamedWhereTheyAreWanted) {
  const std::string mixed = stochastic + "weights = \"mxfp4\"\nactivations = \"mxfp6_e3m2\"\n";
  const auto notes = notes_of(mixed + "[compute]\ngemm = \"integer\"\n");
  const std::vector<std::string> want{
      "compute.gemm: the library multiplies fprop in 8 layers: 'mxfp6' has no integer codes",
      "compute.gemm: the library multiplies wgrad in 8 layers: 'mxfp6' has no integer codes"};
  EXPECT_EQ(notes, want);
  EXPECT_TRUE(notes_of(mixed + "[compute]\ngemm = \"library\"\n").empty());
  EXPECT_TRUE(notes_of(stochastic + "weights = \"mxfp4\"\nactivations = \"mxint8\"\n[compute]\ngemm = "
                                    "\"integer\"\n")
                  .empty());
}

TEST(PrecisionNotes, NothingIsSaidWhereNoStochasticGradientIsLostToANarrowFormat) {
  for (const auto& text : {rule("\"wgrad.*\"", "mxfp6 round=stochastic"), rule("\"wgrad.*\"", "bf16"),
                           rule("\"*.x\", \"*.w\"", "mxfp4"),
                           rule("\"wgrad.dy\"", "mxfp6") + rule("\"wgrad.dy\"", "mxfp6 round=stochastic"),
                           rule("\"wgrad.hadamard\"", "hadamard=16")})
    for (const auto& note : notes_of(stochastic + text))
      EXPECT_FALSE(contains(note, "to nearest")) << text << note;
}

TEST(PrecisionNotes, ASettingOfOperandsThatNothingQuantizesIsNoted) {
  const auto notes = notes_of(rule("\"wgrad.hadamard\"", "hadamard=16"));
  ASSERT_EQ(notes.size(), 1u);
  EXPECT_EQ(notes[0],
            "wgrad.hadamard = hadamard=16 signs=run does nothing in blocks.0.attn.out blocks.0.attn.qkv "
            "blocks.0.mlp.down blocks.0.mlp.up: nothing quantizes its operands there");
  EXPECT_TRUE(notes_of(rule("\"wgrad.x\"", "mxfp4") + rule("\"wgrad.hadamard\"", "hadamard=16")).empty())
      << "one operand is enough";
  const auto mask = notes_of(rule("\"fprop.x\"", "mxfp4") + rule("\"*.ste\"", "ste=mask"));
  ASSERT_EQ(mask.size(), 1u);
  EXPECT_TRUE(mask[0].starts_with("fprop.w.ste = ste=mask does nothing in blocks.0.attn.out")) << mask[0];
}

TEST(PrecisionNotes, ARuleThatLaterRulesShadowOrThatHasNoEffectIsNoted) {
  const std::string narrow = rule("\"fprop.*\"", "mxfp4"), wide = rule("\"fprop.x\"", "mxfp8");
  EXPECT_TRUE(notes_of(narrow + wide).empty()) << "fprop.w is still the first rule's";
  const auto shadowed = notes_of(narrow + rule("\"*.x\", \"*.w\"", "mxfp8"));
  ASSERT_EQ(shadowed.size(), 1u);
  EXPECT_TRUE(shadowed[0].starts_with("r.toml:4: this rule ('mxfp4' for 'blocks.0.*') changes nothing"))
      << shadowed[0];
  EXPECT_EQ(notes_of(rule("\"dgrad.source\"", "source=forward")).size(), 1u) << "the forward rounds nothing";
  const std::string phase =
      "[[precision.phases]]\nstart = 50\n" + rule("\"*.x\", \"*.w\"", "mxfp8", "precision.phases.rules");
  EXPECT_TRUE(notes_of(narrow + phase).empty()) << "before the phase the first rule holds";
}

TEST(PrecisionNotes, ARecipeThatLeavesNothingQuantizedIsNotedFirst) {
  const std::string words = "extends = 'precision/nvidia2025'\n";
  const auto none = notes_of(words);  // two blocks, the first and the last
  ASSERT_FALSE(none.empty());
  EXPECT_TRUE(
      none[0].starts_with("nothing is quantized: every operand of all 2 blocks and of the head is f32 or "
                          "bf16. precision.gradients is nvfp4"))
      << none[0];
  Recipe recipe = recipe_from_toml("extends = 'precision/nvidia2025'\nmodel.layers = 3", "r.toml");
  EXPECT_EQ(nothing_quantized(recipe), "");
  recipe = recipe_from_toml("extends = 'precision/bf16'\nmodel.layers = 2", "r.toml");
  EXPECT_EQ(nothing_quantized(recipe), "") << "nobody asked for it";
  EXPECT_EQ(nothing_quantized(recipe_from_toml(
                "[[precision.phases]]\nstart = 5\n" + rule("\"*.x\"", "mxfp8", "precision.phases.rules"),
                "r.toml")),
            "")
      << "from step 5 on it is";
}

TEST(PrecisionNotes, ARuleWithoutSlotsThatReachesAttentionIsNoted) {
  const std::string bare = "[[precision.rules]]\nlayers = \"blocks.0.*\"\nformat = \"mxfp6\"\n";
  const auto notes = notes_of(bare);
  ASSERT_EQ(notes.size(), 1u);
  EXPECT_TRUE(
      notes[0].starts_with("r.toml:4: this rule ('mxfp6' for 'blocks.0.*') has no slots, so it reaches the "
                           "twelve of attention as well, which precision.attention = f32"))
      << notes[0];
  EXPECT_TRUE(notes_of("precision.attention = \"mxfp8\"\n" + bare).empty()) << "attention is rounded anyway";
  EXPECT_TRUE(notes_of(rule("\"fprop.*\", \"dgrad.*\", \"wgrad.*\"", "mxfp6")).empty()) << "as the note says";
  for (const std::string layers : {"*", "blocks.*.attn", "blocks.*.mlp.*"})
    EXPECT_TRUE(notes_of("[[precision.rules]]\nlayers = \"" + layers + "\"\nformat = \"mxfp6\"\n").empty())
        << layers;
}

TEST(PrecisionNotes, ARuleThatARollbackBringsIsNotIdle) {
  const std::string phase = "[[precision.phases]]\nstart_rollback = 1\n";
  const auto of = [&](const std::string& format) {
    return notes_of(
        "train.on_divergence = \"rollback\"\n[precision]\nweights = \"mxfp4\"\nhead = \"bf16\"\n" + phase +
        rule("\"*.w\"", format, "precision.phases.rules"));
  };
  EXPECT_TRUE(of("mxfp8").empty());
  ASSERT_EQ(of("mxfp4").size(), 1u);
  EXPECT_TRUE(contains(of("mxfp4")[0], "changes nothing"));
}

TEST(PrecisionNotes, ARuleWithoutWhichTheRecipeWouldBeRefusedIsNotIdle) {
  EXPECT_TRUE(notes_of(rule("\"*.x\", \"*.dy\"", "mxfp4") + rule("\"wgrad.hadamard\"", "hadamard=16") +
                       rule("\"wgrad.hadamard\"", "hadamard=0") + rule("\"wgrad.source\"", "source=shared"))
                  .size() == 1)
      << "the first Hadamard transform alone";
}

/// Allocations of memory while rules are read, applied and looked at for notes.
std::int64_t work_of(int rules) {
  std::string text = stochastic;
  for (int i = 0; i < rules; ++i)
    text += rule("\"fprop.*\", \"*.dy\"", i % 2 ? "mxfp4" : "mxfp6 round=stochastic");
  const std::int64_t before = test::allocations;
  EXPECT_GE(notes_of(text).size(), std::size_t(rules) - 1) << "all but the last change nothing";
  return test::allocations - before;
}

TEST(PrecisionNotes, TwiceAsManyRulesAreTwiceTheWork) {
  const std::int64_t few = work_of(300), many = work_of(600);
  EXPECT_GT(few, 300);
  EXPECT_LT(many, 2 * few + few / 4) << few << " and " << many << " allocations";
}

TEST(PrecisionNotes, TheShippedRecipesNeedNone) {
  for (const auto& shipped : shipped_recipes())
    for (const auto& note : precision_notes(read_recipe(std::string(shipped.name))))
      ADD_FAILURE() << shipped.name << ": " << note;
}

}  // namespace
}  // namespace mxtape
