#include <gtest/gtest.h>

#include <algorithm>

#include "kernels/calls_rows.h"
#include "tests/support/device.h"
#include "tests/train/outcome.h"
#include "train/memory/memory_plan.h"

namespace mxtape::test {
namespace {

constexpr Recompute everything[] = {Recompute::norm, Recompute::gelu, Recompute::norm_and_gelu};

std::vector<std::vector<float>> bits_after(Recipe recipe, Recompute recompute) {
  recipe.compute.recompute = recompute;
  return outcome_of(std::move(recipe), make_device()).bits;
}

Recipe small(std::int64_t steps) {
  Recipe r = tiny_mxfp4_recipe(steps);
  r.model = {.layers = 2, .heads = 2, .width = 16, .context = 8, .dropout = 0.1f};
  r.train.batch_size = 2;
  r.train.accumulation = 1;
  return r;
}

TEST(Recompute, GivesTheSameBitsForOperandsOfFourKinds) {
  std::vector<Recipe> recipes{small(3)};
  recipes[0].precision.activations = "mxfp4 round=stochastic";  // the same draws must come again
  recipes[0].precision.rules.push_back({"*", {"wgrad.hadamard"}, "hadamard=8 signs=call", "here"});
  recipes.push_back(small(2));
  recipes[1].precision.activations = "nvfp4";  // a scale of the whole tensor
  recipes.push_back(small(2));
  recipes[2].precision = {};  // the operand is the norm's result itself
  recipes.push_back(small(2));
  recipes[3].compute.activations = ActivationType::bf16;
  recipes[3].model.bias = false;
  recipes[3].model.gelu = Gelu::erf;
  recipes.push_back(small(3));
  recipes[4].model.norm = NormKind::rms, recipes[4].model.positions = Positions::rope;
  recipes[4].model.mlp = MlpKind::swiglu, recipes[4].model.qk_norm = true, recipes[4].model.kv_heads = 1;
  for (const Recipe& recipe : recipes) {
    const auto kept = bits_after(recipe, Recompute::none);
    for (const Recompute recompute : everything)
      EXPECT_TRUE(bits_after(recipe, recompute) == kept)
          << "recipe " << &recipe - recipes.data() << ", recompute " << int(recompute);
  }
}

TEST(Recompute, SavesTheOperandsThatAreMadeFromNormsAndGelus) {
  Recipe r = small(2);
  r.model = {.vocabulary = 50, .layers = 4, .heads = 2, .width = 64, .context = 64};
  r.train.batch_size = 4;
  // bf16 operands of tokens x C: of norms for qkv, MLP and head, of GELU four times as wide.
  const std::int64_t operand = 2 * 4 * 64 * 64, layers = 4;
  std::int64_t step_peaks[4];
  for (const Recompute recompute :
       {Recompute::none, Recompute::norm, Recompute::gelu, Recompute::norm_and_gelu}) {
    r.compute.recompute = recompute;
    step_peaks[int(recompute)] = memory_plan(r).step_peak;
  }
  // At the peak, in the last layer's backward pass, one of them is there again, and its source beside it.
  const std::int64_t norm_saved = step_peaks[0] - step_peaks[1], gelu_saved = step_peaks[0] - step_peaks[2];
  EXPECT_GE(norm_saved, (2 * layers - 2) * operand);
  EXPECT_LE(norm_saved, (2 * layers + 1) * operand);
  EXPECT_GE(gelu_saved, (layers - 3) * 4 * operand);
  EXPECT_LE(gelu_saved, layers * 4 * operand);
  EXPECT_LT(step_peaks[3], std::min(step_peaks[1], step_peaks[2]));
}

}  // namespace
}  // namespace mxtape::test
