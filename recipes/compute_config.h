#pragma once
#include <cstdint>
#include <string>

#include "autograd/saved.h"
#include "kernels/choose/make_backend.h"

namespace mxtape {

/// The type of what passes between layers, and of its gradients; weights, moments and weight gradients are
/// f32.
enum class ActivationType : std::uint8_t { f32, bf16 };

/// Which GEMMs multiply operands that have integer codes. A run records what `automatic` became.
enum class GemmChoice : std::uint8_t { automatic, library, integer };

struct ComputeConfig {
  std::string device = "cpu";
  ActivationType activations = ActivationType::f32;
  AttentionKernels attention = AttentionKernels::own;
  GemmChoice gemm = GemmChoice::automatic;
  Recompute recompute = Recompute::none;
  Saved saved = Saved::ready;
  bool graph = true;                ///< record the step on devices that can, and launch it as one
  std::int64_t threads = 0;         ///< 0: all
  bool overlap = true;              ///< several devices: gradients are exchanged while backward goes on
  std::int64_t bucket_kib = 16384;  ///< f32 gradients that are exchanged together, or one larger parameter

  /// The choice, made for the device and this machine if it is automatic.
  GemmKernels gemm_kernels() const {
    if (gemm == GemmChoice::automatic) return quicker_gemm_kernels(device);
    return gemm == GemmChoice::integer ? GemmKernels::integer : GemmKernels::library;
  }
  std::int64_t bucket_elements() const { return bucket_kib * (1024 / std::int64_t(sizeof(float))); }
  Products products() const { return {bf16_products(device), gemm_kernels()}; }
  BackendOptions options() const { return {.graph = graph, .attention = attention, .gemm = gemm_kernels()}; }
};

}  // namespace mxtape
