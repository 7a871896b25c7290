// What the command line says of a recipe.
#include <algorithm>

#include "recipes/knobs.h"
#include "tests/recipes/recipe_files.h"

namespace mxtape {
namespace {

TEST(Overrides, OverridesComeLastAndAreCheckedLikeFiles) {
  const Recipe r = read_recipe("shakespeare", {"optim.beta2=0.5", "optim.eps=1e-6", "schedule.kind=linear",
                                               "precision.weights=mxfp4 rule=ceil", "model.bias=true",
                                               "name=other", "data.file=x = y.h5"});
  EXPECT_EQ(r.optim.beta2, 0.5f);
  EXPECT_EQ(r.optim.eps, 1e-6f);
  EXPECT_EQ(r.schedule.kind, ScheduleKind::linear);
  EXPECT_EQ(r.precision.weights, "mxfp4 rule=ceil");
  EXPECT_TRUE(r.model.bias);
  EXPECT_EQ(r.name, "other");
  EXPECT_EQ(r.data.file, "x = y.h5");

  const auto refused = [](const std::string& text) {
    return refusal([&] { read_recipe("shakespeare", {text}); });
  };
  EXPECT_EQ(refused("optim.betta2=1"),
            "command line: unknown key 'optim.betta2'; did you mean 'optim.beta2'?");
  EXPECT_EQ(refused("train.steps=12x"),
            "command line: train.steps = '12x'; want an integer in [1, 2147483648]");
  EXPECT_EQ(refused("train.steps="), "command line: train.steps = ''; want an integer in [1, 2147483648]");
  EXPECT_TRUE(contains(refused("train.steps=5\nseed=3"), "want an integer"));  // one override sets one key
  EXPECT_TRUE(
      contains(refused("precision.weights=mxfp5"),
               "command line: precision.weights = 'mxfp5'; no such format; did you mean 'mxfp4' or "));
  EXPECT_TRUE(contains(refused("precision.weights=mxfp4 round=nearest"),
                       "'mxfp4 round=nearest'; round=nearest is not known; known: even away down zero "));
  EXPECT_EQ(refused("precision.grads=mxfp4"),
            "command line: unknown key 'precision.grads'; did you mean 'precision.gradients'?");
  EXPECT_TRUE(contains(refused("train.steps"), "want section.key=value"));
}

TEST(Overrides, ANameThatTomlCouldNotReadBackIsRefused) {
  for (const char* bytes :
       {"\xe9", "\xc0\xaf", "\xe0\x80\xaf", "\xed\xa0\x80", "\xf4\x90\x80\x80", "\xe2\x82"})
    EXPECT_TRUE(contains(refusal([&] { read_recipe("shakespeare", {fmt::format("name=caf{}", bytes)}); }),
                         "name (command line) is not UTF-8"))
        << bytes;
  EXPECT_EQ(read_recipe("shakespeare", {"name=caf\xc3\xa9"}).name, "caf\xc3\xa9");
}

TEST(Overrides, ARuleMayBeAddedOnTheCommandLine) {
  const Recipe r =
      read_recipe("shakespeare-mxfp4", {"precision.rules=[{layers=\"blocks.0.*\", format=\"bf16\"}]"});
  EXPECT_EQ(precision_plan(r, 0).linear.at("blocks.0.mlp.up").fprop_w, bf16_cast);
}

TEST(Overrides, ArgumentsBecomeOverridesInBothForms) {
  const std::vector<std::string> words{"--optim.beta2=0.95", "--train.steps", "10", "--optim.eps", "-1"};
  const std::vector<std::string> want{"optim.beta2=0.95", "train.steps=10", "optim.eps=-1"};
  EXPECT_EQ(overrides_from_arguments(words), want);
  const auto refused = [](std::vector<std::string> w) {
    return refusal([&] { overrides_from_arguments(w); });
  };
  EXPECT_TRUE(contains(refused({"steps=3"}), "want --section.key=value"));
  EXPECT_TRUE(contains(refused({"--train.steps"}), "has no value"));
  EXPECT_TRUE(contains(refused({"--train.steps", "--seed=3"}), "has no value"));
}

TEST(Overrides, AWordThatIsNoKeyIsCalledAnUnknownOptionWithTheNearestName) {
  const auto refused = [](const std::string& word) {
    return refusal([&] {
      overrides_from_arguments(std::vector{word}, std::vector<std::string>{"resume", "allow-change"});
    });
  };
  EXPECT_EQ(refused("--resum=auto"), "command line: unknown option '--resum'; did you mean '--resume'?");
  EXPECT_EQ(refused("--resum"), refused("--resum=auto")) << "with the value as the next word too";
  EXPECT_EQ(refused("--sed=3"), "command line: unknown option '--sed'; did you mean '--seed'?");
  EXPECT_EQ(refused("--steps=3"), "command line: unknown option '--steps'; did you mean '--train.steps'?");
  EXPECT_EQ(refused("--n_layer=3"),
            "command line: unknown option '--n_layer'; did you mean '--model.layers'?");
  EXPECT_TRUE(contains(refused("--momentum=3"), ", and the keys that `mxtape recipes --reference` lists"));
  EXPECT_NO_THROW(overrides_from_arguments(std::vector<std::string>{"--seed=3"}));
}

TEST(Overrides, NamesOfOtherTrainersLeadToKeysThatExist) {
  Recipe recipe;
  for (const char* name :
       {"max_iters", "eval_interval", "eval_iters", "always_save_checkpoint", "out_dir",
        "gradient_accumulation_steps", "dataset", "block_size", "n_layer", "n_head", "n_embd", "vocab_size",
        "lr", "grad_clip", "warmup_iters", "min_lr", "dtype", "lr_decay_iters"}) {
    const std::string word = fmt::format("--{}=1", name);
    const std::string text = refusal([&] { overrides_from_arguments(std::span(&word, 1)); });
    const auto from = text.find("did you mean '--");
    ASSERT_NE(from, std::string::npos) << text;
    const std::string key = text.substr(from + 16, text.size() - from - 18);
    const auto all = knobs(recipe);
    EXPECT_TRUE(std::any_of(all.begin(), all.end(), [&](auto& knob) { return knob.name == key; })) << text;
  }
}

TEST(Overrides, AKeyIsGivenOnceOnTheCommandLine) {
  EXPECT_EQ(refusal([] {
              read_recipe("shakespeare", {"train.steps=500", "seed=2", "train.steps=600"});
            }),
            "command line: --train.steps=500 and --train.steps=600; want the key once");
}

TEST(Overrides, NumbersAreJudgedAsTheF32ThatTheyBecome) {
  const auto refused = [](const std::string& text) {
    return refusal([&] { read_recipe("shakespeare", {text}); });
  };
  EXPECT_EQ(refused("optim.clip_norm=1e-300"),
            "command line: optim.clip_norm = 1e-300; want a number >= 0; as an f32 it is 0");
  EXPECT_EQ(refused("optim.learning_rate=1e308"),
            "command line: optim.learning_rate = 1e+308; want a number > 0; as an f32 it is inf");
  EXPECT_TRUE(contains(refused("model.dropout=0.99999999999"), "want a number in [0, 1); as an f32 it is 1"));
  EXPECT_EQ(refused("optim.eps=-1"), "command line: optim.eps = -1; want a number > 0");
  EXPECT_EQ(refused("optim.eps=nan"), "command line: optim.eps = nan; want a number > 0");
  EXPECT_EQ(read_recipe("shakespeare", {"optim.weight_decay=.5"}).optim.weight_decay, 0.5f);
  EXPECT_EQ(refused("seed=9223372036854775808"),
            "command line: seed = '9223372036854775808'; want an integer in [0, 2^63 - 1]");
}

}  // namespace
}  // namespace mxtape
