#include "recipes/text/precision_table.h"

#include <gtest/gtest.h>

#include "core/error.h"

namespace mxtape {
namespace {

std::string text_of(const std::string& name, const std::vector<std::string>& overrides) {
  return saved_text(read_recipe(name, overrides));
}

TEST(SavedText, IsEmptyWhereNothingIsPacked) {
  const std::string integer = "compute.gemm=integer";
  EXPECT_EQ(text_of("shakespeare-mxfp4", {integer, "compute.saved=ready"}), "");
  EXPECT_EQ(text_of("shakespeare-6x384-mxfp4", {"compute.gemm=library"}), "");
  for (const char* precision : {"bf16", "mxint8", "mxfp8"})
    EXPECT_EQ(text_of(std::string("shakespeare-") + precision, {integer, "train.batch_size=500"}), "");
  EXPECT_EQ(text_of("shakespeare-mxfp4", {integer}), "") << "caches hold what it keeps";
}

TEST(SavedText, ByDefaultCodesOfIntegerGemmsArePackedInLargeModels) {
  const std::string integer = "compute.gemm=integer";
  for (const char* name : {"shakespeare-mxfp4", "shakespeare-nvfp4"}) {
    const std::vector<std::string> large{integer, "train.batch_size=128"};  // 16 MiB of 512 channels
    EXPECT_EQ(text_of(name, large),
              text_of(name, {integer, "compute.saved=packed", "compute.recompute=norm+gelu"}))
        << name;
  }
}

TEST(SavedText, WhatPacksByDefaultComputesNormsAndGelusAgain) {
  const auto recompute = [](const std::vector<std::string>& overrides) {
    const Recipe r = read_recipe("shakespeare-6x384-mxfp4", overrides);
    return kept_for(precision_plan(r, 0), r).recompute;
  };
  const std::string integer = "compute.gemm=integer";
  EXPECT_EQ(recompute({integer}), Recompute::norm_and_gelu);
  EXPECT_EQ(recompute({integer, "compute.recompute=none"}), Recompute::none);
  EXPECT_EQ(recompute({integer, "compute.saved=packed"}), Recompute::none);
  EXPECT_EQ(recompute({"compute.gemm=library"}), Recompute::none);
}

TEST(SavedText, CountsLayersByTheBitsOfWhatTheyKeep) {
  const std::string packed = "compute.saved=packed", integer = "compute.gemm=integer",
                    library = "compute.gemm=library";
  for (const auto& gemm : {integer, library})
    EXPECT_EQ(text_of("shakespeare-mxfp4", {packed, gemm}),
              "packed: wgrad.x of 1 layer as it is, of 16 layers in 4 bits; q, k and v of 4 layers in bf16");
  EXPECT_EQ(text_of("shakespeare-mxfp6", {packed, library}),
            "packed: wgrad.x of 1 layer as it is, of 16 layers in 6 bits; q, k and v of 4 layers in bf16");
  EXPECT_EQ(text_of("shakespeare-nvfp4", {packed, library}),
            "packed: wgrad.x of 17 layers as it is; q, k and v of 4 layers in bf16");
  EXPECT_EQ(text_of("shakespeare-nvfp4", {packed, integer}),
            "packed: wgrad.x of 1 layer as it is, of 16 layers in 4 bits; q, k and v of 4 layers in bf16");
  EXPECT_EQ(
      text_of("shakespeare-mxfp4", {packed, integer, "precision.attention=f32"}),
      "packed: wgrad.x of 1 layer as it is, of 16 layers in 4 bits; q, k and v of 4 layers as they are");
  EXPECT_EQ(text_of("shakespeare-mxint8", {packed, integer, "compute.activations=bf16"}),
            "packed: wgrad.x of 17 layers as it is; q, k and v of 4 layers as they are");
}

TEST(SavedText, TellsEveryPhaseOfTheRun) {
  const std::string text =
      text_of("shakespeare-mxfp4",
              {"compute.saved=packed", "compute.gemm=integer",
               "precision.phases=[{start=1000, rules=[{layers=\"blocks.0.*\", format=\"f32\"}]}]"});
  EXPECT_NE(text.find("; from step 1000: wgrad.x of 5 layers as it is, of 12 layers in 4 bits"),
            std::string::npos)
      << text;
}

// A GPU has no narrow layouts, but the stored one, in which scales need not be found again.
TEST(SavedText, SaysWhatAGpuStores) {
  for (const char* format : {"mxfp4", "nvfp4"})
    EXPECT_EQ(
        text_of("gpt2-124m-cuda-mxfp4",
                {"compute.saved=packed", std::string("precision.activations=") + format}),
        "packed: wgrad.x of 1 layer as it is, of 48 layers in 4 bits; q, k and v of 12 layers as they are");
  EXPECT_EQ(text_of("gpt2-124m-cuda-mxfp4", {"compute.saved=packed", "precision.activations=mxint8"}),
            "packed: wgrad.x of 49 layers as it is; q, k and v of 12 layers as they are");
}

}  // namespace
}  // namespace mxtape
