#pragma once
#include "autograd/ops.h"

namespace mxtape {

enum class LinearGemm : std::uint8_t { fprop, dgrad, wgrad };

/// Keys of the random draws of one linear layer. From its tensor_id on: x, w and dy for rounding; the three
/// GEMMs for signs (another purpose, so another stream).
struct LinearKeys {
  PassKey pass;
  std::uint32_t tensor_id;
  std::uint64_t weight_version;

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
  QuantizedCopy wanted(LinearGemm gemm, const Quantizer& q, Axis axis, Rotation rotation) const {
    return {q, axis, rotation, signs(gemm, rotation.signs), {}, {}};
  }
};

}  // namespace mxtape
