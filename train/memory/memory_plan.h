#pragma once
#include <string>

#include "recipes/recipe.h"

namespace mxtape {

class Devices;

/// What a run will need, found by running two optimizer steps and one validation pass of the real trainer on
/// a DryBackend, for the phase of the precision rules that needs most. Bytes.
struct MemoryPlan {
  std::int64_t weights = 0;        ///< f32 masters
  std::int64_t gradients = 0;      ///< f32
  std::int64_t moments = 0;        ///< AdamW's two, f32
  std::int64_t travelling = 0;     ///< gradients of a strand, as they go from device to device
  std::int64_t weight_copies = 0;  ///< quantized, kept between steps
  std::int64_t step_peak =
      0;                  ///< most bytes of tensors at a time in a training step, all of the above included
  std::int64_t peak = 0;  ///< the same for the whole run: validation may need more
  std::int64_t tensors = 0;    ///< masters and moments
  std::int64_t telemetry = 0;  ///< what a step that is measured takes on the host
  double integer_ops = 0;      ///< of the linear layers' GEMMs in one optimizer step, both operands codes
  double bf16_flops = 0;       ///< both bf16
  double f32_flops = 0;        ///< the others

  std::int64_t state() const { return weights + gradients + moments + weight_copies; }
  /// A checkpoint: masters and moments.
  std::int64_t checkpoint() const { return weights + moments; }
  /// While it is saved, where the device's memory is the host's: gradients and activations have gone
  /// (Trainer::save). Its image is counted twice: once it is there, the rest is room for the largest tensor.
  std::int64_t save_peak() const { return state() - gradients + 2 * checkpoint(); }
};

/// An estimate. The program itself comes on top, and what kernels take for themselves, but for what
/// DryBackend counts of it and for the f32 copies that a CPU makes of bf16. The recipe's vocabulary must be
/// set. `devices`: of a dry run as one of several (device_plan.h); null for one.
MemoryPlan memory_plan(const Recipe&, Devices* devices = nullptr);

/// "3.1 MiB".
std::string bytes_text(double bytes);

/// "a strand's gradients travel in 12.3 MiB, 26% of f32's".
std::string gradients_text(const MemoryPlan&);

/// The size of a checkpoint's file, a little above what it is: the tensors, 400 bytes of HDF5's for each, the
/// recipe, 96 bytes for each token of the tokenizer, and 12 KiB.
std::int64_t checkpoint_bytes(const MemoryPlan&, const Recipe&);
/// The size of a run's records, at most: 512 bytes a step in metrics.jsonl and TensorBoard's file, 16 KiB of
/// other texts, and telemetry_bytes().
std::int64_t record_bytes(const Recipe&);

}  // namespace mxtape
