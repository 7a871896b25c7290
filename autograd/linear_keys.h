#pragma once
#include "autograd/ops.h"
#include "kernels/backend.h"

namespace mxtape {

enum class LinearGemm : std::uint8_t { fprop, dgrad, wgrad };

/// The copies that the GEMMs of one linear layer want, and the keys of their random draws. From its tensor_id
/// on: x, w and dy for rounding; the three GEMMs for signs (another purpose, so another stream).
struct LinearKeys {
  PassKey pass;
  std::uint32_t tensor_id;
  std::uint64_t weight_version;
  const LinearQuant& quant;
  GemmKernels kernels;

  DrawKey rounding_w() const {
    return {pass.seed, Purpose::rounding, tensor_id + 1, std::uint32_t(weight_version), 0, Clock::update};
  }

  /// The signs of both operands of a GEMM. `run` and `step` share one vector between all GEMMs. fprop and
  /// dgrad see a weight copy that lives for a whole optimizer step, so `call` draws theirs once per step.
  DrawKey signs(LinearGemm gemm, SignsPer per) const {
    DrawKey key{pass.seed, Purpose::hadamard_signs, 0, 0, 0};
    const auto follow = [&](Clock clock, std::uint32_t now) { key.clock = clock, key.step = now; };
    if (per == SignsPer::step || per == SignsPer::call) follow(Clock::update, std::uint32_t(weight_version));
    if (per == SignsPer::call) key.tensor_id = tensor_id + std::uint32_t(gemm);
    if (per == SignsPer::call && gemm == LinearGemm::wgrad) follow(Clock::pass, pass.step);
    return key;
  }

  /// A copy for one side of a GEMM, still without values.
  QuantizedCopy wanted(LinearGemm gemm, const Quantizer& q, Axis axis) const {
    const auto copy = [&](const Quantizer& a, const Quantizer& b, const Rotation& rotation) -> QuantizedCopy {
      return {q, axis, rotation, signs(gemm, rotation.signs), form_of(kernels, a, b)};
    };
    return gemm == LinearGemm::fprop   ? copy(quant.fprop_x, quant.fprop_w, quant.fprop_rotation)
           : gemm == LinearGemm::dgrad ? copy(quant.dgrad_dy, quant.dgrad_w, quant.dgrad_rotation)
                                       : copy(quant.wgrad_dy, quant.wgrad_x, quant.wgrad_rotation);
  }
};

}  // namespace mxtape
