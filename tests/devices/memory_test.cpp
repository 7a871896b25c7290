// What a run takes of a device, against the plan of it. Built for devices other than the CPU only.
#include <gtest/gtest.h>

#include "kernels/attention/scratch.h"
#include "kernels/calls_rows.h"
#include "tests/support/device.h"
#include "tests/train/tiny_run.h"
#include "train/memory/memory_plan.h"

namespace mxtape::test {
namespace {

/// Large enough that a step's tensors outweigh the 256-byte granules of the pool.
Recipe small_recipe() {
  Recipe r = tiny_recipe(3);
  r.model = {.layers = 2, .heads = 2, .width = 64, .context = 64};
  r.train.eval_windows = 4;
  r.compute.device = "cuda";
  return r;
}

Recipe quantized_recipe() {
  Recipe r = small_recipe();
  r.compute.activations = ActivationType::bf16;
  r.precision.weights = r.precision.activations = r.precision.gradients = "mxfp4";
  r.precision.attention = "mxfp8";
  return r;
}

/// Attention's [T, T] matrices are most of what it takes; a scale of a whole head has them made one by one.
Recipe long_recipe() {
  Recipe r = small_recipe();
  r.model = {.layers = 1, .heads = 1, .width = 32, .context = 160};
  r.train.batch_size = 1;
  r.train.eval_windows = 1;
  r.precision.attention = "nvfp4";
  return r;
}

// Of their own, kernels but attention's take the sums of parts of a tensor, for the time of a call: a tenth
// is room for that, and for what kernels/attention/scratch.h counts that a device does not take.
TEST(DeviceMemory, IsWhatThePlanSaysGiveOrTakeATenth) {
  for (const Recipe& recipe : {small_recipe(), quantized_recipe(), long_recipe()}) {
    auto fresh = make_device();
    const std::int64_t workspace = fresh->used_bytes();
    TinyRun run(recipe, std::move(fresh));
    run.run(3);  // as it comes, planned, recorded
    run.trainer.validate();
    const double plan = double(memory_plan(run.trainer.recipe()).peak);
    const double peak = double(run.backend->peak_bytes() - workspace);
    EXPECT_LE(peak, 1.1 * plan) << recipe.precision.attention << " " << recipe.model.context;
    EXPECT_GE(peak, 0.9 * plan) << recipe.precision.attention << " " << recipe.model.context;
  }
}

AttentionQuant all_slots(const Quantizer& q) { return {q, q, q, q, q, q, q, q, q, q, q, q}; }

// Each tensor is rounded up to a granule of 256 bytes; a call has no more than some 30 of them.
TEST(DeviceMemory, AttentionTakesNoMoreScratchThanIsCounted) {
  for (const AttentionShape& s :
       {AttentionShape{2, 96, 2, 32}, {1, 36, 2, 20}, {2, 96, 4, 32, 2}, {1, 36, 4, 20, 1}})
    for (const DType dtype : {DType::f32, DType::bf16})
      for (const char* text : {"f32", "bf16", "mxfp8", "nvfp4"}) {
        const auto fresh = make_device();
        const std::int64_t width = s.heads * s.width;
        const Tensor qkv = fresh->empty({s.batch, s.time, s.q_row()}, dtype);
        const Tensor o = fresh->empty({s.batch, s.time, width}, dtype);
        const Tensor lse = fresh->empty({s.batch, s.heads, s.time});
        const Tensor d_o = fresh->empty(o.shape(), dtype), dqkv = fresh->empty(qkv.shape(), dtype);
        for (const Tensor& x : {qkv, d_o}) fresh->fill(x, 1);
        const std::int64_t before = fresh->used_bytes();
        const auto taken = [&] { return fresh->peak_bytes() - before; };
        const auto allowed = [](std::int64_t counted) { return counted + 30 * 256; };

        const AttentionQuant quant = all_slots(parse_quantizer(text));
        const auto counted = attention_scratch(AttentionKernels::own, s, quant, dtype);
        fresh->run(call::Attention{o, lse, qkv, s, quant, {}});
        EXPECT_LE(taken(), allowed(counted.forward)) << text << " of " << name_of(dtype) << " T " << s.time;
        fresh->run(call::AttentionBackward{dqkv, d_o, qkv, o, lse, s, quant, {}});
        EXPECT_LE(taken(), allowed(counted.backward)) << text << " of " << name_of(dtype) << " T " << s.time;
      }
}

}  // namespace
}  // namespace mxtape::test
