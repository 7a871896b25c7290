// compute.saved changes memory and no bit of a result.
#include <gtest/gtest.h>

#include <algorithm>

#include "kernels/observers/trace.h"
#include "tests/train/outcome.h"
#include "train/memory/memory_plan.h"

namespace mxtape::test {
namespace {

Outcome outcome_of(Recipe recipe, Saved saved) {
  recipe.compute.saved = saved;
  auto device = make_backend("cpu", recipe.compute.options());
  return test::outcome_of(std::move(recipe), std::move(device));
}

/// Extents that no block and no panel divides, dropout, two micro-batches.
Recipe odd(GemmChoice gemm, bool llama) {
  Recipe r = tiny_recipe(3);
  r.model = {.layers = 2, .heads = 3, .width = 42, .context = 13, .dropout = 0.1f};
  if (llama) {
    r.model.norm = NormKind::rms, r.model.positions = Positions::rope, r.model.mlp = MlpKind::swiglu;
    r.model.qk_norm = true, r.model.kv_heads = 1;
  }
  r.train.batch_size = 5;
  r.train.accumulation = 2;
  r.compute.gemm = gemm;
  r.precision.attention = r.precision.head = "bf16";
  return r;
}

void quantize(Recipe& r, const std::string& forward, const std::string& gradients) {
  r.precision.weights = r.precision.activations = forward;
  r.precision.gradients = gradients;
}

TEST(SavedPacked, GivesTheSameBitsForEveryFormatInBothFormsAndModels) {
  const std::pair<const char*, const char*> formats[] = {
      {"mxfp4 rule=even", "mxfp4 rule=even round=stochastic"},
      {"mxfp4 round=stochastic", "mxfp4 round=stochastic"},
      {"mxfp6", "mxfp6"},
      {"mxfp6_e2m3", "mxfp6_e2m3"},
      {"mxfp8", "mxfp8_e5m2"},
      {"mxint8", "mxint8"},
      {"nvfp4", "nvfp4 round=stochastic alpha=0.94"},
      {"int4 block=16 scale=e4m3", "nvfp4 round=stochastic"},
      {"e3m0 block=32 scale=e8m0", "e3m0 block=32 scale=e8m0"},
      {"bf16", "bf16"},
      {"f32", "f32"}};
  for (const bool llama : {false, true})
    for (const GemmChoice gemm : {GemmChoice::library, GemmChoice::integer})
      for (const auto& [forward, gradients] : formats) {
        Recipe r = odd(gemm, llama);
        quantize(r, forward, gradients);
        const Outcome ready = outcome_of(r, Saved::ready), packed = outcome_of(r, Saved::packed);
        EXPECT_TRUE(ready.bits == packed.bits) << forward << (llama ? ", llama" : "") << " " << int(gemm);
      }
}

// A step of one pass keeps no copies of weights, but those that a validation leaves.
TEST(SavedPacked, GivesTheSameBitsWithoutCopiesOfWeightsBetweenSteps) {
  const auto run = [](Recipe recipe, Saved saved) {
    recipe.compute.saved = saved;
    TinyRun run(recipe, make_backend("cpu", recipe.compute.options()));
    std::vector<float> bits;
    while (!run.trainer.finished()) {
      const auto step = run.trainer.step();
      bits.insert(bits.end(), {float(step.loss), step.norm, float(run.trainer.validate().loss)});
    }
    for (const Parameter* p : run.trainer.model().parameters()) {
      const auto values = download(*run.backend, p->value);
      bits.insert(bits.end(), values.begin(), values.end());
    }
    return bits;
  };
  const auto expect_same = [&](Recipe r, const std::vector<PrecisionRule>& rules, const char* what) {
    r.train.accumulation = 1;
    r.precision.rules = rules;
    EXPECT_TRUE(run(r, Saved::ready) == run(r, Saved::packed)) << what;
  };
  for (const GemmChoice gemm : {GemmChoice::library, GemmChoice::integer}) {
    Recipe r = odd(gemm, false);
    r.model.width = 48, r.model.context = 16, r.train.batch_size = 4;
    quantize(r, "mxfp4 round=stochastic", "mxfp4 round=stochastic");
    expect_same(r, {}, "stochastic");
    expect_same(r, {{"blocks.*", {"*.source"}, "source=forward", "here"}}, "of the forward's");
    expect_same(r, {{"blocks.*", {"fprop.hadamard"}, "hadamard=16 signs=call", "here"}}, "rotated");
    expect_same(r, {{"blocks.*", {"fprop.w.ste"}, "ste=mask", "here"}}, "through a mask");
    quantize(r, "nvfp4", "nvfp4 round=stochastic");
    expect_same(r, {}, "with multipliers");
    quantize(r, "bf16", "bf16");
    expect_same(r, {}, "one copy for both axes");
  }
}

// More than sixteen queries, which attention's own tiles take where a machine has them.
TEST(SavedPacked, GivesTheSameBitsForSequencesOfMoreThanAChunk) {
  for (const bool llama : {false, true}) {
    Recipe r = odd(GemmChoice::integer, llama);
    r.model.context = 37;
    quantize(r, "mxfp4", "mxfp4 round=stochastic");
    EXPECT_TRUE(outcome_of(r, Saved::ready).bits == outcome_of(r, Saved::packed).bits) << llama;
  }
}

TEST(SavedPacked, GivesTheSameBitsForRotatedAndSharedCopiesAndThoseOfTheForward) {
  const auto expect_same = [](const Recipe& r, const char* what) {
    EXPECT_TRUE(outcome_of(r, Saved::ready).bits == outcome_of(r, Saved::packed).bits) << what;
  };
  for (const GemmChoice gemm : {GemmChoice::library, GemmChoice::integer}) {
    Recipe r = odd(gemm, false);
    r.model.width = 48;
    quantize(r, "mxfp4", "mxfp4 round=stochastic");
    r.train.batch_size = 4, r.model.context = 16;  // 64 rows, which Hadamard's blocks divide
    Recipe rotated = r;
    rotated.precision.rules.push_back({"blocks.*", {"wgrad.hadamard"}, "hadamard=16 signs=call", "here"});
    expect_same(rotated, "rotated");
    Recipe forward = r;
    forward.precision.rules.push_back({"blocks.*", {"*.source"}, "source=forward", "here"});
    expect_same(forward, "source=forward");
    Recipe masked = r;
    masked.precision.rules.push_back({"blocks.*", {"fprop.x.ste"}, "ste=mask", "here"});
    expect_same(masked, "mask");
  }
  Recipe shared = odd(GemmChoice::library, false);
  quantize(shared, "e2m1 block=16x16 scale=e8m0", "mxfp4");
  shared.precision.rules.push_back({"blocks.*", {"*.source"}, "source=shared", "here"});
  expect_same(shared, "source=shared");
}

TEST(SavedPacked, GivesTheSameBitsWithRecomputationBf16ActivationsAndOtherAttention) {
  const auto expect_same = [](const Recipe& r, const char* what) {
    EXPECT_TRUE(outcome_of(r, Saved::ready).bits == outcome_of(r, Saved::packed).bits) << what;
  };
  for (const bool llama : {false, true}) {
    Recipe r = odd(GemmChoice::integer, llama);
    quantize(r, "mxfp4", "mxfp4 round=stochastic");
    r.compute.recompute = Recompute::norm_and_gelu;
    expect_same(r, "recompute");
    r.compute.recompute = Recompute::none;
    r.compute.activations = ActivationType::bf16;
    expect_same(r, "bf16 activations");
    r.compute.activations = ActivationType::f32;
    r.model.attention_dropout = 0.2f;  // attention head by head
    expect_same(r, "dropped probabilities");
    for (const char* attention : {"f32", "mxfp4", "mxfp8"}) {
      r.precision.attention = attention;
      expect_same(r, attention);
    }
    // q, k and v are rounded to bf16 in backward alone, or in forward alone.
    r.precision.attention = "f32";
    r.precision.rules = {{"*", {"qk.*", "dp.v", "dq.k", "dk.q"}, "bf16", "here"}};
    expect_same(r, "all that backward takes of q, k and v");
    r.precision.rules = {{"*", {"qk.*", "pv.*"}, "bf16", "here"}};
    expect_same(r, "forward's operands alone");
  }
}

TEST(SavedPacked, TakesOffTheBytesThatCopiesAndQkvLose) {
  Recipe r = odd(GemmChoice::integer, false);
  r.model = {.vocabulary = 50, .layers = 4, .heads = 2, .width = 64, .context = 64};
  r.train.batch_size = 4;
  quantize(r, "mxfp4", "mxfp4 round=stochastic");
  const auto peak = [&](Saved saved) {
    r.compute.saved = saved;
    return memory_plan(r).step_peak;
  };
  // tokens x (C for qkv, out and up, 4 C for down) codes and scales, and three halves of an f32 [tokens, C]
  // for q, k and v: all layers' but the last one's, which backward has begun with at the peak.
  const std::int64_t numbers = 4 * 64 * 64, of_copies = 7 * numbers * (36 - 17) / 32,
                     of_qkv = 3 * 2 * numbers;
  const std::int64_t saved = peak(Saved::ready) - peak(Saved::packed);
  EXPECT_GE(saved, 4 * of_qkv + 3 * of_copies);
  EXPECT_LE(saved, 4 * (of_qkv + of_copies) + 4096);
}

TEST(SavedPacked, IsPlannedAsTheDeviceTakesIt) {
  for (const GemmChoice gemm : {GemmChoice::integer, GemmChoice::library})
    for (const Recompute recompute : {Recompute::none, Recompute::norm_and_gelu}) {
      Recipe r = odd(gemm, false);
      r.model = {.layers = 3, .heads = 2, .width = 64, .context = 64};
      r.train.batch_size = 4;
      r.compute.saved = Saved::packed;
      r.compute.recompute = recompute;
      quantize(r, "mxfp4", "mxfp4");
      for (const std::int64_t passes : {2, 1}) {
        r.train.accumulation = passes;
        TinyRun run(r, make_backend("cpu", r.compute.options()));
        const std::int64_t planned = memory_plan(run.trainer.recipe()).step_peak;
        run.run(3);
        // On top comes what kernels take for themselves, which does not grow with the layers.
        EXPECT_GE(run.backend->peak_bytes(), planned);
        EXPECT_LE(double(run.backend->peak_bytes()), 1.15 * double(planned));
      }
    }
}

TEST(SavedPacked, IsTracedAsWhatTheOperandWasRoundedTo) {
  for (const GemmChoice gemm : {GemmChoice::integer, GemmChoice::library}) {
    Recipe r = odd(gemm, false);
    quantize(r, "mxfp4", "mxfp6_e2m3");
    r.compute.saved = Saved::packed;
    r.train.steps = 1, r.schedule.warmup_steps = 0;
    const auto device = make_backend("cpu", r.compute.options());
    Trace trace;
    ObservingBackend tracing(*device, {&trace});
    trace.start();
    Trainer(tracing, r, tiny_data()).step();
    const auto found = trace.stop();
    const auto& products = found.gemms.at("blocks.0.mlp.up").at("wgrad");
    ASSERT_EQ(products.size(), 1u);
    EXPECT_EQ(products[0].a.quantizer, mxfp6_e2m3);
    EXPECT_EQ(products[0].b.quantizer, mxfp4);
  }
}

}  // namespace
}  // namespace mxtape::test
