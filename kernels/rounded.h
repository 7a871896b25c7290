#pragma once
#include <string>

#include "core/tensor.h"
#include "formats/rotation.h"
#include "kernels/gemm_path.h"
#include "kernels/slots.h"

namespace mxtape {

class Backend;

enum class Write : bool { overwrite, accumulate };

/// How the numbers of a rounded matrix lie.
enum class Layout : std::uint8_t {
  values,         ///< f32 or bf16, in the shape of what was rounded; offsets are in them
  codes,          ///< signed bytes and f32 scales, as byte dot products read them: kernels/gemm_codes.h
  stored,         ///< the bytes of formats/codec/mx_tensor.h: what files and messages hold
  narrow_values,  ///< `values` at the width of their format, while they wait: kernels/narrow.h
  narrow_codes,   ///< `codes`, the same
};

/// All that decides the bits of a rounding, but for the numbers that are rounded.
struct Quantization {
  Quantizer quantizer{};
  Axis axis = Axis::row;  ///< along which blocks run and chunks are rotated
  Rotation rotation{};
  DrawKey signs{}, draws{};  ///< of the rotation; of stochastic rounding
  bool again = false;        ///< what is rounded is the forward's rounded operand, not the f32 tensor
};
/// The same numbers from the same tensor: signs and draws count where they are used.
bool same_rounding(const Quantization&, const Quantization&);
/// True if blocks along rows and along columns give the same: single elements, or square tiles.
bool serves_both_axes(const Quantizer&);

/// A matrix on a device as a rounding left it or, without `elements`, as it is wanted. Copies share memory.
///   true value = element * scale * multiplier + offset
struct Rounded {
  Site site{};
  Axis axis = Axis::row;  ///< over which a GEMM sums: by.axis, unless blocks serve both or it is shared
  bool shared = false;    ///< the forward's own, whose values backward takes as they are
  Quantization by{};
  Layout layout = Layout::values;
  Shape shape{};        ///< of what was rounded; leading axes fold into rows
  Tensor elements{};    ///< values: f32 or bf16, else u8
  Tensor scales{};      ///< codes: f32; stored: u8
  Tensor offsets{};     ///< stored: u8, two bytes a block, the low one first
  Tensor average{};     ///< with `ema`, where the weight has one: f32, as what was rounded
  Tensor multiplier{};  ///< f32 [1] if by.quantizer.has_multiplier(); shared, never copied

  explicit operator bool() const { return bool(elements); }
  std::int64_t rows() const { return shape.rows(); }
  std::int64_t cols() const { return shape.cols(); }
  std::int64_t bytes() const {
    return elements.bytes() + scales.bytes() + offsets.bytes() + multiplier.bytes();
  }
  /// Rows [first, first + count) in the same memory, with their draws of the whole. Both ends are those of
  /// blocks and of bytes. Not of codes, whose rows lie in panels.
  Rounded rows(std::int64_t first, std::int64_t count) const;
};

/// x itself, for a GEMM that sums over `axis`.
inline Rounded unrounded(const Tensor& x, Axis axis = Axis::row, Site site = {}) {
  return {.site = site, .axis = axis, .by = {.axis = axis}, .shape = x.shape(), .elements = x};
}
/// How x is wanted by a rounding without rotation, for a GEMM that sums over the axis of its blocks.
inline Rounded wanted(const Quantizer& q, Axis axis, const Shape& shape, Layout layout = Layout::values,
                      const DrawKey& draws = {}) {
  return {.axis = axis, .by = {q, axis, {}, {}, draws}, .layout = layout, .shape = shape};
}
bool is_itself(const Rounded& wanted, DType x);  ///< x of this type is what is wanted: nothing rounds it
/// Layout of both operands of a GEMM.
constexpr Layout gemm_layout(GemmKernels kernels, const Quantizer& a, const Quantizer& b) {
  const bool codes = kernels == GemmKernels::integer && has_integer_codes(a) && has_integer_codes(b);
  return codes ? Layout::codes : Layout::values;
}
/// With memory for what is wanted.
Rounded with_room(Backend&, Rounded wanted);
/// Bytes of its parts but the multiplier.
std::int64_t bytes_of_parts(const Rounded& wanted);
/// Why a rounding does not come back from `stored` in `layout` bit for bit; empty if it does.
std::string loss_when_stored(const Quantizer&, Layout layout);

}  // namespace mxtape
