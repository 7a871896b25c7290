#pragma once
#include <cstdint>

#include "core/host_device.h"
#include "core/random.h"
#include "core/tensor.h"
#include "formats/quantize.h"
#include "formats/rotation/rotation.h"
#include "kernels/gemm/codes.h"

namespace mxtape {

enum class Trans : bool { no, yes };
enum class Write : bool { overwrite, accumulate };
enum class Gelu : std::uint8_t { tanh, erf };

/// One side of a GEMM: f32 or bf16 values, or codes with their scales; and the number [1] that the product is
/// multiplied by, if any.
struct Operand {
  Tensor values;
  Trans trans = Trans::no;  ///< of codes: yes if their lines are columns of a or rows of b
  Tensor multiplier{};
  Tensor scales{};
  CodeLayout layout{};
};

/// One quantized copy of a tensor. `values` has x's shape and q.operand_dtype(), or is codes as `layout`
/// says, with `scales`; `multiplier` is f32 [1] if q.has_multiplier(), else empty.
struct QuantizedCopy {
  Quantizer quantizer;
  Axis axis = Axis::row;
  Rotation rotation{};
  DrawKey signs{};  ///< of the rotation
  Form form = Form::values;
  Tensor values{};
  Tensor multiplier{};
  Tensor scales{};
  CodeLayout layout{};
};

/// A matrix as it is stored (formats/codec/mx_tensor.h), on a device. Its parts have the sizes of
/// packed_layout(), and none where there is nothing to hold; codes, scales, offsets and multiplier are all
/// that unpacking needs, wherever they were made.
struct PackedTensor {
  Quantizer quantizer;
  Axis axis = Axis::row;
  std::int64_t rows = 0, cols = 0;
  Tensor codes{};          ///< u8: as MxTensor's
  Tensor scales{};         ///< u8: as MxTensor's
  Tensor offsets{};        ///< u8: two bytes of FP16 bits per block, low byte first
  Tensor multiplier{};     ///< f32 [1] if quantizer.has_multiplier()
  Tensor first_uncoded{};  ///< i32 [1]: see call::Pack
};

/// A QuantizedCopy between two GEMMs, its elements at the width of their format: kernels/codec/packed_copy.h.
/// All else about it, its multiplier too, is the copy's.
struct PackedCopy {
  Tensor codes{}, scales{};  ///< u8
};

/// What AdamW keeps from step to step (Loshchilov & Hutter 2019, arXiv:1711.05101, algorithm 2).
struct AdamWStep {
  float beta1, beta2, eps, weight_decay;
};

}  // namespace mxtape
