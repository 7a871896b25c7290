// On every device compute.saved = packed changes no bit and takes less memory.
#include <gtest/gtest.h>

#include "tests/support/device.h"
#include "tests/train/outcome.h"

namespace mxtape::test {
namespace {

Outcome outcome_of(Recipe recipe, Saved saved) {
  recipe.compute.saved = saved;
  return test::outcome_of(std::move(recipe), make_device());
}

Recipe in(const std::string& forward, const std::string& gradients) {
  Recipe r = tiny_recipe(2);
  r.model = {.layers = 3, .heads = 2, .width = 32, .context = 16};
  r.precision.weights = r.precision.activations = forward;
  r.precision.gradients = gradients;
  return r;
}

TEST(SavedOnDevice, GivesTheSameBitsInLessMemory) {
  const std::pair<const char*, const char*> formats[] = {{"mxfp4 round=stochastic", "mxfp4 round=stochastic"},
                                                         {"mxfp6", "mxfp8_e5m2"},
                                                         {"nvfp4", "nvfp4 round=stochastic alpha=0.94"},
                                                         {"mxfp4 offset=fp16", "bf16"}};
  for (const auto& [forward, gradients] : formats) {
    const Recipe r = in(forward, gradients);
    const Outcome ready = outcome_of(r, Saved::ready), packed = outcome_of(r, Saved::packed);
    EXPECT_TRUE(ready.bits == packed.bits) << forward;
    EXPECT_LE(packed.peak, ready.peak) << forward;
  }
  const Recipe r = in("mxfp4", "mxfp4");
  EXPECT_LT(outcome_of(r, Saved::packed).peak, outcome_of(r, Saved::ready).peak);
}

TEST(SavedOnDevice, GivesTheSameBitsForOtherSourcesAndRecomputation) {
  for (const char* source : {"source=forward", "source=shared"}) {
    Recipe r = in("e2m1 block=16x16 scale=e8m0", "mxfp4");
    r.precision.rules.push_back({"blocks.*", {"*.source"}, source, "here"});
    r.compute.recompute = Recompute::norm;
    EXPECT_TRUE(outcome_of(r, Saved::ready).bits == outcome_of(r, Saved::packed).bits) << source;
  }
}

}  // namespace
}  // namespace mxtape::test
