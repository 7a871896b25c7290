#include "recipes/text/reader.h"

#include <gtest/gtest.h>

#include "core/error.h"
#include "core/files/atomic_file.h"
#include "tests/support/temporary_folder.h"

namespace mxtape {
namespace {

const ModelConfig llama{.vocabulary = 50,
                        .layers = 3,
                        .heads = 4,
                        .width = 24,
                        .context = 32,
                        .norm = NormKind::rms,
                        .positions = Positions::rope,
                        .mlp = MlpKind::swiglu};

class InitialModelTest : public testing::Test {
 protected:
  Recipe read(const std::string& text, const std::vector<std::string>& overrides = {},
              const ModelConfig& there = llama) {
    write_atomically(folder_ / "tune.toml", "[train]\ninit = 'there'\n" + text);
    return read_run_recipe((folder_ / "tune.toml").string(), overrides, [&](const std::string& init) {
      EXPECT_EQ(init, "there");
      return there;
    });
  }
  std::string refusal(const std::vector<std::string>& overrides, const ModelConfig& there = llama) {
    try {
      (void)read("", overrides, there);
      return "";
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), ExitCode::usage);
      return e.what();
    }
  }
  const TemporaryFolder folder_;
};

TEST_F(InitialModelTest, KeysThatNobodySetAreThoseOfTheModelAndSayFromWhere) {
  const Recipe recipe = read("steps = 900\n");
  EXPECT_EQ(recipe.model, llama);
  EXPECT_EQ(recipe.origin("model.layers"), "train.init");
  EXPECT_EQ(recipe.origin("model.heads"), "default") << "the default is what is there";
  EXPECT_EQ(recipe.train.steps, 900);
}

// The default model has no such layer: its precision is held to the model that is there.
TEST_F(InitialModelTest, RulesMayNameLayersOfTheModelThatIsThere) {
  const Recipe recipe =
      read("[[precision.rules]]\nlayers = 'blocks.2.mlp.gate_up'\nslots = ['fprop.w']\nformat = 'mxfp4'\n");
  EXPECT_FALSE(precision_plan(recipe, 0).linear.at("blocks.2.mlp.gate_up").fprop_w.is_identity());
}

TEST_F(InitialModelTest, AKeyThatSaysSomethingElseIsRefusedWithBothValuesAndItsAuthor) {
  EXPECT_NE(refusal({"model.layers=4"}).find("model.layers: 3 -> 4  (command line)"), std::string::npos);
  EXPECT_NE(refusal({"model.norm=layer"}).find("model.norm: \"rms\" -> \"layer\""), std::string::npos);
  EXPECT_NE(refusal({"model.vocabulary=49"}).find("model.vocabulary: 50 -> 49"), std::string::npos);
  EXPECT_NE(refusal({"model.init_deviation=0.1"}).find("model.init_deviation"), std::string::npos);
  ModelConfig gpt2 = llama;
  gpt2.positions = Positions::learned;
  EXPECT_NE(refusal({"model.context=33"}, gpt2).find("model.context: 32 -> 33"), std::string::npos);
}

TEST_F(InitialModelTest, WhatLeavesTheWeightsAsTheyAreMayDiffer) {
  EXPECT_EQ(refusal({"model.layers=3", "model.dropout=0.1", "model.attention_dropout=0.2"}), "");
  EXPECT_EQ(refusal({"model.context=8"}), "");
  EXPECT_EQ(refusal({"model.context=64"}), "") << "RoPE has no table";
  EXPECT_EQ(refusal({"model.vocabulary=64", "model.init_deviation=0.1"}), "");
  EXPECT_EQ(refusal({"model.mlp_width=64", "model.kv_heads=4", "model.head_width=6"}), "") << "what 0 means";
  EXPECT_EQ(read("", {"model.vocabulary=0"}).model.vocabulary, 50) << "as many as are there";
}

}  // namespace
}  // namespace mxtape
