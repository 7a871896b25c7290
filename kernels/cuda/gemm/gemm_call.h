#pragma once
#include <cstdint>

#include "kernels/backend.h"

namespace mxtape::cuda {

/// One product as a library of GEMMs takes it: c[M, N] = alpha sum over k of a(m, k) b(n, k) + beta c + bias,
/// with M, N, K > 0, k being the axes. a and b have one type, bf16 or f32; c is f32 or, for bf16 operands,
/// bf16. `bias` [N] may be empty; otherwise it has c's type and starts at a multiple of 16 bytes. `scale` f32
/// [2] holds alpha and beta; empty means 1 and what `write` says.
struct GemmCall {
  Tensor c, a, b;
  Axis a_axis, b_axis;
  Tensor bias{}, scale{};
  Write write = Write::overwrite;

  std::int64_t M() const { return a_axis == Axis::row ? a.rows() : a.cols(); }
  std::int64_t N() const { return b_axis == Axis::row ? b.rows() : b.cols(); }
  std::int64_t K() const { return a_axis == Axis::row ? a.cols() : a.rows(); }
};

}  // namespace mxtape::cuda
