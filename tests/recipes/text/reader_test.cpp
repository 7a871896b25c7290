#include <algorithm>

#include "tests/recipes/recipe_files.h"

namespace mxtape {
namespace {

std::string refused_text(const std::string& text) {
  return refusal([&] { recipe_from_toml(text, "r.toml"); });
}

TEST(Reader, KeysThatAFileDoesNotNameKeepTheirDefaults) {
  const Recipe r = recipe_from_toml("[optim]\nbeta2 = 0.95\n", "r.toml");
  EXPECT_EQ(r.optim.beta2, 0.95f);
  EXPECT_EQ(r.optim.beta1, AdamWConfig{}.beta1);
  EXPECT_EQ(r.train.steps, TrainConfig{}.steps);
}

TEST(Reader, NumbersMayHaveExponentsAndUnderscoresAndNoPoint) {
  EXPECT_EQ(recipe_from_toml("optim.eps = 1e-4", "r").optim.eps, 1e-4f);
  EXPECT_EQ(recipe_from_toml("optim.eps = 1E-4", "r").optim.eps, 1e-4f);
  EXPECT_EQ(recipe_from_toml("optim.clip_norm = 2", "r").optim.clip_norm, 2.0f);
  EXPECT_EQ(recipe_from_toml("train.steps = 18_865", "r").train.steps, 18865);
}

// toml++ calls itself for each of these: without a limit they end the program.
TEST(Reader, WhatIsNestedTooDeepIsOneErrorAndNoCrash) {
  const auto times = [](int count, const std::string& piece) {
    std::string text;
    for (int i = 0; i < count; ++i) text += piece;
    return text;
  };
  const int many = 50'000;
  EXPECT_EQ(refused_text("\n" + times(many, "a.") + "a = 1"),
            "r.toml:2:64: a key of more than 32 parts; want section.key");
  EXPECT_TRUE(contains(refused_text("[" + times(many, "a.") + "a]"), "a key of more than 32 parts"));
  EXPECT_TRUE(contains(refused_text(times(many, "'a' . ") + "a = 1"), "a key of more than 32 parts"));
  for (const std::string& piece : {std::string("["), std::string("{ a = "), std::string("[ # ]\n"),
                                   std::string("[ ']', \"]\\\"]\", \"\"\"]\"]\"\"\"\", ")})
    EXPECT_TRUE(contains(refused_text("a = " + times(many, piece)), "more than 32 brackets in one another"))
        << piece;
  EXPECT_NO_THROW(recipe_from_toml("description = '" + times(many, "[.") + "' # " + times(many, "[."), "r"));
  EXPECT_NO_THROW(recipe_from_toml("description = \"\"\"" + times(many, "[.\n") + "\"\"\"", "r"));
  const RecipeFiles files;
  const std::string file = files.write("fine.toml", "");
  EXPECT_TRUE(
      contains(refusal([&] { read_recipe(file, {"model.layers=" + times(many, "[")}); }), "model.layers = "));
}

TEST(Reader, AFileThatCannotBeReadIsNoEmptyRecipe) {
  try {
    read_recipe("/proc/self/mem");  // opens, and then is an I/O error, for root as well
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ExitCode::resource);
    EXPECT_TRUE(contains(e.what(), "/proc/self/mem: cannot read byte 0")) << e.what();
  }
  EXPECT_TRUE(contains(refusal([] { read_recipe("/proc/self"); }), "'/proc/self' is a folder"));
  const RecipeFiles files;
  const std::string file = files.write("mine.toml", "extends = '/proc/self'");
  EXPECT_TRUE(contains(refusal([&] { read_recipe(file); }), "extends: '/proc/self' is a folder"));
}

TEST(Reader, AnUnknownKeyNamesItsPlaceAndTheNearestKey) {
  EXPECT_EQ(refused_text("[optim]\n  betta1 = 0.9\n"),
            "r.toml:2:3: unknown key 'optim.betta1'; did you mean 'optim.beta1'?");
  EXPECT_EQ(refused_text("[optm]\nbeta1 = 0.9\n"),
            "r.toml:1:2: unknown key or section 'optm'; did you mean 'optim'?");
  EXPECT_EQ(refused_text("sede = 3\n"), "r.toml:1:1: unknown key or section 'sede'; did you mean 'seed'?");
}

TEST(Reader, AKeyInTheWrongSectionIsToldWhereItBelongs) {
  EXPECT_TRUE(
      contains(refused_text("[train]\nlearning_rate = 1e-3\n"), "did you mean 'optim.learning_rate'?"));
}

TEST(Reader, AKeyLikeNoOtherListsItsSection) {
  const std::string text = refused_text("[schedule]\nq = 1\n");
  EXPECT_TRUE(contains(text, "known: schedule.kind schedule.warmup_steps")) << text;
}

TEST(Reader, WrongValuesNamePlaceKeyFoundAndWanted) {
  EXPECT_EQ(refused_text("[optim]\nbeta2 = 1.5\n"), "r.toml:2:1: optim.beta2 = 1.5; want a number in [0, 1)");
  EXPECT_EQ(refused_text("[train]\nsteps = \"many\"\n"),
            "r.toml:2:1: train.steps = 'many'; want an integer in [1, 2147483648]");
  EXPECT_EQ(refused_text("[train]\nsteps = 2e3\n"),
            "r.toml:2:1: train.steps = 2000.0; want an integer in [1, 2147483648]");
  EXPECT_EQ(refused_text("[model]\nbias = 1\n"), "r.toml:2:1: model.bias = 1; want true or false");
  EXPECT_EQ(refused_text("[schedule]\nkind = \"cosin\"\n"),
            "r.toml:2:1: schedule.kind = \"cosin\"; want one of: constant linear cosine wsd; did you mean "
            "'cosine'?");
  EXPECT_EQ(refused_text("optim = 3\n"), "r.toml:1:1: optim = 3; want a section: [optim]");
}

TEST(Reader, AKeyGivenTwiceIsRefused) {
  EXPECT_TRUE(contains(refused_text("[train]\nsteps = 5\nsteps = 6\n"), "r.toml:3:"));
  EXPECT_TRUE(contains(refused_text("[train]\nsteps = 5\n[train]\nbatch_size = 6\n"), "r.toml:3:"));
}

TEST(Reader, BrokenTomlNamesLineAndColumn) {
  EXPECT_TRUE(contains(refused_text("[train]\nsteps = = 5\n"), "r.toml:2:9"));
}

TEST(Reader, AFileChangesWhatItExtendsAndNothingElse) {
  const RecipeFiles files;
  files.write("base.toml",
              "description = \"the base\"\n[train]\nsteps = 50\n[optim]\nbeta2 = 0.9\nbeta1 = 0.8\n"
              "[schedule]\nwarmup_steps = 5\n");
  files.write("middle.toml", "extends = \"base.toml\"\n[optim]\nbeta2 = 0.91\n");
  const Recipe r = read_recipe(files.write("top.toml", "extends = \"middle.toml\"\ntrain.steps = 60\n"));
  EXPECT_EQ(r.train.steps, 60);
  EXPECT_EQ(r.optim.beta2, 0.91f);
  EXPECT_EQ(r.optim.beta1, 0.8f);
  EXPECT_EQ(r.name, "top");  // a name says what a file is, not what it extends
  EXPECT_EQ(r.description, "");
}

TEST(Reader, OfSeveralExtendedFilesLaterOnesWin) {
  const RecipeFiles files;
  files.write("a.toml", "optim.beta1 = 0.1\noptim.beta2 = 0.1\n");
  files.write("b.toml", "optim.beta2 = 0.2\n");
  const Recipe r = read_recipe(files.write("c.toml", "extends = [\"a.toml\", \"b.toml\"]\n"));
  EXPECT_EQ(r.optim.beta1, 0.1f);
  EXPECT_EQ(r.optim.beta2, 0.2f);
}

TEST(Reader, AFileThatIsExtendedInSeveralPlacesWinsAtTheLastOne) {
  const RecipeFiles files;
  const std::string rule = "[[precision.rules]]\nformat = ";
  files.write("d.toml", "optim.beta1 = 0.5\noptim.beta2 = 0.5\n" + rule + "\"mxfp8\"\n");
  files.write("b.toml", "extends = \"d.toml\"\noptim.beta1 = 0.6\n" + rule + "\"mxfp6\"\n");
  files.write("c.toml", "extends = \"d.toml\"\noptim.beta2 = 0.7\n");
  const Recipe r = read_recipe(files.write("a.toml", "extends = [\"b.toml\", \"c.toml\", \"./c.toml\"]\n"));
  EXPECT_EQ(r.optim.beta1, 0.5f) << "c extends d after b has set it";
  EXPECT_EQ(r.optim.beta2, 0.7f);
  ASSERT_EQ(r.precision.rules.size(), 2u);
  EXPECT_EQ(r.precision.rules[0].format, "mxfp6");
  EXPECT_EQ(r.precision.rules[1].format, "mxfp8");
  EXPECT_EQ(precision_plan(r, 0).linear.at("blocks.0.mlp.up").fprop_x, mxfp8_e4m3);
}

TEST(Reader, AChainOfFilesMayBeLong) {
  const RecipeFiles files;
  std::string file = files.write("0.toml", "optim.beta1 = 0.5\n");
  for (int i = 1; i <= 3000; ++i)
    file = files.write(fmt::format("{}.toml", i), fmt::format("extends = \"{}.toml\"\n", i - 1));
  EXPECT_EQ(read_recipe(file).optim.beta1, 0.5f);
}

TEST(Reader, APrecisionIsFoundByTheLastPartOfItsName) {
  EXPECT_TRUE(contains(refusal([] { read_recipe("mxfp4"); }), "; did you mean 'precision/mxfp4'?"));
  const RecipeFiles files;
  const std::string file = files.write("mine.toml", "extends = \"MXFP8\"\n");
  EXPECT_TRUE(contains(refusal([&] { read_recipe(file); }), "; did you mean 'precision/mxfp8'?"));
}

TEST(Reader, AFileMayExtendAShippedRecipeByName) {
  const RecipeFiles files;
  const Recipe r =
      read_recipe(files.write("mine.toml", "extends = \"shakespeare-mxfp4\"\nmodel.layers = 2\n"));
  EXPECT_EQ(r.model.layers, 2);
  EXPECT_EQ(r.precision.weights, "mxfp4 rule=even");
}

TEST(Reader, RulesComeAfterThoseOfTheExtendedRecipe) {
  const RecipeFiles files;
  files.write("base.toml", "[[precision.rules]]\nlayers = \"head\"\nformat = \"mxfp8_e4m3\"\n");
  const Recipe r = read_recipe(files.write(
      "top.toml", "extends = \"base.toml\"\n[[precision.rules]]\nlayers = \"head\"\nformat = \"bf16\"\n"));
  ASSERT_EQ(r.precision.rules.size(), 2u);
  EXPECT_EQ(r.precision.rules[0].format, "mxfp8_e4m3");
  EXPECT_EQ(r.precision.rules[1].format, "bf16");
  EXPECT_TRUE(contains(r.precision.rules[1].where, "top.toml:2"));
}

TEST(Reader, FilesThatExtendEachOtherAreRefused) {
  const RecipeFiles files;
  files.write("a.toml", "extends = \"b.toml\"\n");
  const std::string b = files.write("b.toml", "\nextends = \"a.toml\"\n");
  const std::string self = files.write("self.toml", "extends = \"./self.toml\"\n");
  EXPECT_TRUE(contains(refusal([&] { read_recipe(b); }), "a.toml:1:"));
  EXPECT_TRUE(contains(refusal([&] { read_recipe(b); }), "circle"));
  EXPECT_TRUE(contains(refusal([&] { read_recipe(self); }), "circle"));
}

TEST(Reader, AMissingFileNamesTheNearestShippedRecipe) {
  const std::string text = refusal([] { read_recipe("shakspeare-mxfp4"); });
  EXPECT_TRUE(contains(text, "did you mean 'shakespeare-mxfp4'?")) << text;
  const RecipeFiles files;
  const std::string child = files.write("child.toml", "\n\nextends = \"gone.toml\"\n");
  EXPECT_TRUE(contains(refusal([&] { read_recipe(child); }), "child.toml:3:"));
  EXPECT_NE(refusal([] { read_recipe("/tmp"); }), "");  // a folder is no recipe
}

TEST(Reader, OriginsSayWhoSetAKey) {
  const Recipe r = read_recipe("shakespeare-mxfp4", {"optim.beta2=0.5"});
  EXPECT_EQ(r.origins.at("optim.beta2"), "command line");
  EXPECT_TRUE(r.origins.at("precision.weights").starts_with("recipes/precision/mxfp4.toml:"));
  EXPECT_TRUE(r.origins.at("model.layers").starts_with("recipes/shakespeare.toml:"));
  EXPECT_EQ(r.origins.count("train.keep"), 0u);
}

TEST(Reader, KeysThatDoNotFitTogetherAreRefused) {
  const auto refused = [](std::vector<std::string> overrides) {
    return refusal([&] { read_recipe("shakespeare", overrides); });
  };
  EXPECT_TRUE(
      contains(refused({"train.steps=50"}), "schedule.warmup_steps = 100 (recipes/shakespeare.toml:"));
  EXPECT_TRUE(contains(refused({"train.steps=50"}), "want at most train.steps = 50 (command line)"));
  EXPECT_TRUE(contains(refused({"model.heads=3"}), "model.heads = 3"));
  EXPECT_TRUE(
      contains(refused({"train.steps=2000000000", "train.accumulation=1000"}), "want less than 2^32"));
  EXPECT_TRUE(
      contains(refused({"precision.phases=[{start=2000, rules=[{format=\"bf16\"}]}]"}), "never starts"));
}

TEST(Reader, AttentionByCudnnIsRefusedWhereItsKernelsDoNotFit) {
  const auto read = [](std::vector<std::string> changes) {
    for (const std::string fitting :
         {"compute.attention=cudnn", "compute.device=cuda", "compute.activations=bf16"}) {
      const std::string key = fitting.substr(0, fitting.find('=') + 1);
      if (std::none_of(changes.begin(), changes.end(), [&](auto& change) { return change.starts_with(key); }))
        changes.push_back(fitting);
    }
    return read_recipe("shakespeare-mxfp4", changes);
  };
  const auto refused = [&](std::vector<std::string> changes) { return refusal([&] { read(changes); }); };
  EXPECT_EQ(read({}).compute.attention, AttentionKernels::cudnn);
  EXPECT_EQ(read({"precision.attention=bf16"}).compute.attention, AttentionKernels::cudnn);
  EXPECT_TRUE(contains(refused({"compute.device=cpu"}),
                       "found compute.device = cpu; want cuda, or --compute.attention=own"));
  EXPECT_TRUE(contains(refused({"compute.activations=f32"}), "found compute.activations = f32; want bf16"));
  EXPECT_TRUE(
      contains(refused({"model.width=80", "model.heads=4"}), "model.width / model.heads = 80 / 4 = 20"));
  EXPECT_TRUE(contains(refused({"model.width=544", "model.heads=4"}), "= 136"));
  EXPECT_TRUE(contains(refused({"model.context=1"}), "want model.context >= 2"));
  EXPECT_TRUE(contains(refused({"precision.attention=mxfp8"}), "found qk.q = "));
  EXPECT_TRUE(
      contains(refused({"precision.rules=[{layers=\"*.attn\", slots=[\"scores\"], format=\"mxfp8\"}]"}),
               "which does not round scores; found scores = mxfp8 in blocks.0.attn"));
  EXPECT_TRUE(
      contains(refused({"model.attention_dropout=0.1"}), "found model.attention_dropout = 0.1; want 0"));
  EXPECT_TRUE(
      contains(refused({"precision.phases=[{start=900, rules=[{slots=[\"pv.p\"], format=\"mxfp8\"}]}]"}),
               "in blocks.0.attn from step 900; want precision.attention = bf16 there"));
}

TEST(Reader, RulesAndPhasesSayWhatTheyLack) {
  EXPECT_TRUE(contains(refused_text("\n[[precision.rules]]\nlayers = \"head\"\n"),
                       "r.toml:2:1: this rule has no 'format'"));
  EXPECT_TRUE(contains(refused_text("[[precision.rules]]\nlayer = \"head\"\nformat = \"bf16\"\n"),
                       "r.toml:2:1: unknown key 'precision.rules.layer'; did you mean 'layers'?"));
  EXPECT_TRUE(contains(refused_text("[[precision.rules]]\nformat = \"mxfp3\"\n"),
                       "r.toml:2:1: precision.rules.format"));
  EXPECT_TRUE(contains(refused_text("[[precision.rules]]\nformat = \"hadamard=3\"\n"), "power of two"));
  EXPECT_TRUE(contains(refused_text("[[precision.phases]]\nstart = 3\n"), "has no rules"));
  EXPECT_TRUE(contains(refused_text("[[precision.phases]]\n[[precision.phases.rules]]\nformat = \"bf16\"\n"),
                       "has no 'start'"));
  EXPECT_TRUE(contains(refused_text("[precision]\nrules = 3\n"), "want tables: [[precision.rules]]"));
}

}  // namespace
}  // namespace mxtape
