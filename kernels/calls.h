#pragma once
#include <span>
#include <string_view>

#include "formats/straight_through.h"
#include "kernels/rounded.h"

namespace mxtape {

/// What a call does with one of its tensors, and so what the tensor may hold.
enum class Role : std::uint8_t {
  activation,  ///< read: f32 or bf16, as all activations of the call
  result,      ///< an activation that is written, rounded to nearest even when it is bf16
  input,       ///< read: f32
  output,      ///< written: f32
  sum,         ///< written or added to: f32
  state,       ///< read and written: f32
  operand,     ///< read: f32, bf16 or u8 (codes), each for itself
  rounded,     ///< written: f32, bf16 or u8 (codes), each for itself
  index,       ///< read: i32
  found,       ///< written: i32
  wide,        ///< read or written: f64
  any          ///< read or written: any type
};
constexpr bool is_activation(Role role) { return role == Role::activation || role == Role::result; }

/// What is asked of a device: one struct for each kernel, a call is a value of it. Letters: B batch, T time,
/// C channels, H heads, D head width, V vocabulary; GEMM M, N, K; rows = all axes but the last. Activations
/// and their gradients are f32 or bf16, all those of a call the same; they are read as f32. Parameters, their
/// gradients and moments, biases, statistics and losses are f32. Outputs are written, not added to, unless a
/// field says Write::accumulate.
///
/// each(call, f) gives f the role, name and tensor of every tensor field; what is written comes in the order
/// of the computation.
namespace call {
using enum Role;

/// Gives f each part of a rounded matrix, under this role.
inline void each_part(auto& r, Role role, const auto& f) {
  f(role, "values", r.elements), f(role, "scales", r.scales), f(role, "offsets", r.offsets);
  f(role == rounded ? output : input, "multiplier", r.multiplier), f(input, "average", r.average);
}

/// y = value.
struct Fill {
  static constexpr std::string_view name = "fill";
  Tensor y;
  float value;
  static void each(auto& c, const auto& f) { f(any, "y", c.y); }
};

/// y = x, f32 and bf16 converted to each other if the types differ.
struct Copy {
  static constexpr std::string_view name = "copy";
  Tensor y, x;
  static void each(auto& c, const auto& f) { f(any, "y", c.y), f(any, "x", c.x); }
};

/// y = a standard normal draw of `key` by index, times `deviation`: initialisation.
struct Normal {
  static constexpr std::string_view name = "normal";
  Tensor y;
  float deviation;
  DrawKey key;
  static void each(auto& c, const auto& f) { f(output, "y", c.y); }
};

/// c[M, N] (+)= sum over k of a(m, k) b(n, k), times both multipliers, in f32 sums; plus `bias` [N] in every
/// row. k is each operand's own axis: `row`, it is stored as [M, K] or [N, K]; `column`, as [K, M] or [K, N].
/// So nothing is transposed by hand, and an operand whose blocks do not run along the sum is refused. If c is
/// bf16, `bias` is rounded to bf16 first, as GEMM libraries take it, and nothing can be added to. Two bf16
/// operands multiply exactly; a bf16 operand that meets an f32 one is widened; codes meet codes. The order of
/// additions does not depend on the number of threads.
struct Gemm {
  static constexpr std::string_view name = "gemm";
  Tensor c;
  Rounded a, b;
  Tensor bias{};
  Write write = Write::overwrite;
  static void each(auto& c, const auto& f) {
    f(result, "c", c.c), each_part(c.a, operand, f), each_part(c.b, operand, f), f(input, "bias", c.bias);
  }
};

/// Rounds x [rows, C] once or twice in one read, each as its Quantization and layout say, both with the same
/// draws; and, if asked, adds up x's columns: column_sums [C]. A NaN that a stored result cannot hold (a
/// plain cast to a format without NaN; a block that is not finite below a scale without NaN) is no error
/// here, as nothing waits: first_uncoded, if given, becomes the index of the first one, at most 2^31 - 1, or
/// -1. Whoever keeps the bytes must read it.
struct Quantize {
  static constexpr std::string_view name = "quantize";
  std::span<const Rounded> to;
  Tensor x;
  Tensor column_sums{};
  Write sums = Write::overwrite;
  Tensor first_uncoded{};
  static void each(auto& c, const auto& f) {
    for (const Rounded& r : c.to) each_part(r, rounded, f);
    f(sum, "column sums", c.column_sums), f(found, "first_uncoded", c.first_uncoded);
    f(activation, "x", c.x);
  }
};

/// The same numbers in another layout or type: stored -> values or codes, codes -> values, values -> f32 or
/// bf16; values or codes <-> their narrow layout. Without a multiplier in `to`, from's is multiplied in;
/// else `to` shares it.
struct Recode {
  static constexpr std::string_view name = "recode";
  Rounded to, from;
  static void each(auto& c, const auto& f) { each_part(c.to, rounded, f), each_part(c.from, operand, f); }
};

/// dx = R^T (f' * R dy): the gradient of x below Quantize. R is by's rotation, f' the straight-through
/// derivative at R x. `rotated`: dy is R dy already, as a GEMM with what was rounded gives it. The identity
/// needs no x. dx may be dy.
struct QuantizeBackward {
  static constexpr std::string_view name = "quantize_backward";
  Tensor dx{}, dy{}, x{};
  Quantization by;
  StraightThrough ste{};
  bool rotated = false;
  bool is_identity() const { return !rotated && ste.kind == SteKind::identity; }
  static void each(auto& c, const auto& f) {
    f(result, "dx", c.dx), f(activation, "dy", c.dy), f(activation, "x", c.x);
  }
};

}  // namespace call

/// A call of any kernel, by reference: of those above or of those in kernels/calls_rows.h.
class AnyCall {
 public:
  template <class Call>
  AnyCall(const Call* call) : call_(call), kernel_(&Call::name) {}
  /// The call if it is one of this kernel, else null.
  template <class Call>
  const Call* as() const {
    return kernel_ == &Call::name ? static_cast<const Call*>(call_) : nullptr;
  }
  std::string_view name() const { return *kernel_; }

 private:
  const void* call_;
  const std::string_view* kernel_;
};

/// Throws Error(internal) if a tensor of the call has a type that its role does not allow.
void check_types(AnyCall);

}  // namespace mxtape
