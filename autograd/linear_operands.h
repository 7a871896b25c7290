#pragma once
#include <vector>

#include "autograd/round.h"

namespace mxtape {

/// One use of a linear layer in one pass: what decides the bits of its six operands. Saved by value.
struct LinearUse {
  LinearQuant quant;
  std::uint32_t tensor_id = 0;  ///< of x in random draws; + 1: w, + 2: dy, + 3: y
  Shape weight{};               ///< [N, K]
  std::uint64_t weight_version = 0;
  PassKey pass{};
  GemmKernels kernels{};

  /// An operand, without numbers.
  Rounded operand(Slot) const;
  /// The same as it waits for backward: small if the tape packs.
  Rounded kept(Slot, const Tape&) const;
  /// Turns the gradient of the rounded x or w, which a GEMM gives, into that of x or w itself: `value`.
  call::QuantizeBackward through(Slot fprop_operand, const Tensor& value) const;
  /// True if through() reads `value`.
  bool reads_value(Slot fprop_operand) const;
};

inline LinearUse use_of(const Parameter& w, const LinearQuant& quant, std::uint32_t tensor_id,
                        const PassKey& pass, GemmKernels kernels) {
  return {quant, tensor_id, w.shape(), w.version, pass, kernels};
}

/// Throws Error(internal) with both shapes if they do not fit.
void check_linear(const Shape& x, const Parameter& w, const Parameter* bias);

/// Makes the copies of w that ops::linear() multiplies by, where they are missing, stale or of another
/// rounding: in one pass, and those at hand stay. `dgrad`: also the one that only backward uses. Of a fixed
/// weight the rounding is checked, no more. True if one was made: what was at hand may lie elsewhere now.
bool make_weight_copies(Backend&, Parameter& w, const LinearUse&, bool dgrad);

/// Copies of a parameter as they will be after its next update, in the memory of those at hand: for
/// call::AdamW to write. None where there are none: they will be made when they are used.
std::vector<Rounded> next_copies(const Parameter&);
/// Then, what that cannot write: the copy that an average decides, and one that is made from the forward's.
void make_again(Backend&, const Parameter&);

/// The copies at hand of a weight as it is that are neither the weight itself nor each other.
std::vector<Rounded> own_copies(const Parameter&);

/// Raises the version of a parameter that was updated, and of its copies, which call::AdamW has renewed.
void count_update(Parameter&);

}  // namespace mxtape
