#include "recipes/text/precision_table.h"

#include "tests/recipes/recipe_files.h"

namespace mxtape {
namespace {

TEST(PrecisionTable, LayersTreatedAlikeShareTheirLines) {
  const std::string table = precision_table(read_recipe("shakespeare-mxfp4"), GemmKernels::library);
  EXPECT_EQ(
      table,
      "stored activations f32\n"
      "blocks.0-3.*  (16 layers)\n"
      "  fprop  x  mxfp4 rule=even                   w  mxfp4 rule=even                   bf16 GEMM, exact "
      "products\n"
      "  dgrad  dy mxfp4 rule=even round=stochastic  w  mxfp4 rule=even                   bf16 GEMM, exact "
      "products\n"
      "  wgrad  dy mxfp4 rule=even round=stochastic  x  mxfp4 rule=even                   bf16 GEMM, exact "
      "products\n"
      "head\n"
      "  all operands bf16                                                                bf16 GEMM, exact "
      "products\n"
      "blocks.0-3.attn  (4 layers)\n"
      "  all operands bf16                                                                bf16 operands\n");
}

TEST(PrecisionTable, OperandsThatNothingRoundsAreShownAsWhatPassesBetweenLayers) {
  const std::string table = precision_table(read_recipe("shakespeare", {"compute.activations=bf16"}));
  EXPECT_TRUE(contains(table, "stored activations bf16\n")) << table;
  EXPECT_TRUE(contains(table, "  fprop  x  bf16                              w  f32")) << table;
  EXPECT_TRUE(contains(table, "  pv     p  f32                               v  bf16"))
      << table;  // on the CPU
}

TEST(PrecisionTable, LayersThatDifferAreNamed) {
  const std::string table = precision_table(read_recipe(
      "shakespeare", {"precision.rules=[{layers=\"blocks.1.mlp.*|blocks.2.mlp.*\", slots=[\"fprop.x\"], "
                      "format=\"bf16\"}]"}));
  EXPECT_TRUE(contains(table, "blocks.1-2.mlp.down,mlp.up  (4 layers)\n  fprop  x  bf16")) << table;
  EXPECT_TRUE(contains(table, "f32 GEMM, one side widened from bf16")) << table;
  EXPECT_TRUE(contains(table, "blocks.0.* blocks.1-2.attn.out,attn.qkv blocks.3.* head  (13 layers)"))
      << table;
}

TEST(PrecisionTable, OperandsThatAreNotExactInBf16SayThatTheyTakeTheF32Gemm) {
  const Quantizer offset = parse_quantizer("int4 block=32 scale=e8m0 offset=fp16");
  EXPECT_EQ(gemm_path(offset, offset, GemmKernels::library), "f32 GEMM");
  EXPECT_EQ(gemm_path(mxfp4, offset, GemmKernels::library), "f32 GEMM, one side widened from bf16");
  EXPECT_EQ(gemm_path(mxfp4, nvfp4, GemmKernels::library), "bf16 GEMM, exact products");
}

TEST(PrecisionTable, APhaseShowsWhatItChangesAndNothingElse) {
  const std::string table = precision_table(read_recipe(
      "shakespeare-mxfp4", {"precision.phases=[{start=100, rules=[{layers=\"head\", format=\"mxint8\"}]}]"}));
  const std::string phase = table.substr(table.find("from step 100\n"));
  EXPECT_TRUE(contains(phase, "from step 100\nhead\n  all operands mxint8")) << table;
  EXPECT_FALSE(contains(phase, "blocks")) << table;
}

TEST(PrecisionTable, SourcesStraightThroughKindsAndWhatEntersNoGemmAreShown) {
  const auto rule = [](const char* layers, const char* slot, const char* format) {
    return fmt::format("{{layers=\"{}\", slots=[\"{}\"], format=\"{}\"}},", layers, slot, format);
  };
  const std::string table = precision_table(
      read_recipe(
          "shakespeare-mxfp4",
          {"precision.rules=[" + rule("blocks.*", "dgrad.source", "source=shared") +
               rule("blocks.*", "wgrad.source", "source=forward") + rule("blocks.*", "wgrad.x", "mxfp6") +
               rule("blocks.*", "fprop.w.ste", "ste=dge k=3") + rule("head", "out", "mxfp8") +
               rule("*.attn", "scores", "mxfp6") + rule("blocks.*.norm1|norm", "*.gain", "mxint8") +
               rule("embedding", "embedding.table", "nvfp4") + "]",
           "precision.phases=[{start=100, rules=[" + rule("norm", "*.gain", "f32") + "]}]"}),
      GemmKernels::library);
  for (const char* part :
       {"exact products; gradient of w: ste=dge k=3\n", "exact products; w is fprop's w\n",
        "x  mxfp6                             bf16 GEMM, exact products; x rounded from fprop's x\n",
        "head\n  all operands bf16 ", "\n  result y     mxfp8\n", "\n  scores       mxfp6\n",
        "blocks.0-3.norm1 norm\n  gain         mxint8\n", "embedding\n  table        nvfp4\n",
        "from step 100\nnorm\n  gain         f32\n"})
    EXPECT_TRUE(contains(table, part)) << part << "\n" << table;
}

TEST(PrecisionTable, ARotationIsShownWithItsGemm) {
  const std::string table = precision_table(read_recipe("shakespeare-tseng2025"), GemmKernels::library);
  EXPECT_TRUE(contains(table, "exact products; hadamard=64 signs=call")) << table;
}

}  // namespace
}  // namespace mxtape
