#include "recipes/weight_average.h"

#include <gtest/gtest.h>

#include "core/error.h"

namespace mxtape::test {
namespace {

std::string refusal(std::vector<std::string> words) {
  words.insert(words.begin(), "model.vocabulary=64");
  try {
    (void)read_recipe("precision/bf16", words);
  } catch (const Error& e) {
    return e.what();
  }
  return "";
}

TEST(WeightAverageKey, IsWantedWhereAFormatSaysEma) {
  EXPECT_NE(refusal({"precision.weights=mxfp4 ema"}).find("precision.weight_average"), std::string::npos);
  EXPECT_EQ(refusal({"precision.weights=mxfp4 ema", "precision.weight_average=0.99"}), "");
}

TEST(WeightAverageKey, IsForWeightsAsTheyAre) {
  for (const char* key : {"activations", "gradients", "attention"})
    EXPECT_NE(
        refusal({fmt::format("precision.{}=mxfp4 ema", key), "precision.weight_average=0.99"}).find("weight"),
        std::string::npos)
        << key;
}

TEST(WeightAverageKey, WithoutAFormatThatAsksItIsRefused) {
  EXPECT_EQ(read_recipe("precision/tetrajet2025-qema").precision.weight_average, 0.998f);
  EXPECT_NE(refusal({"precision.weight_average=0.9"}).find("ema"), std::string::npos);
  // Where it went back to before the phase that asked.
  EXPECT_EQ(refusal({"precision.weight_average=0.9", "train.rollbacks=[\"2 -> 0\"]"}), "");
}

}  // namespace
}  // namespace mxtape::test
