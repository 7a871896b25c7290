#pragma once
#include <cstdint>

#include "kernels/backend.h"

namespace mxtape::cuda {

/// One product as a library of GEMMs takes it: c[M, N] = alpha op(a)[M, K] op(b)[K, N] + beta c + bias, with
/// M, N, K > 0. a and b have one type, bf16 or f32; c is f32 or, for bf16 operands, bf16. `bias` [N] may be
/// empty; otherwise it has c's type and starts at a multiple of 16 bytes. `scale` f32 [2] holds alpha and
/// beta; empty means 1 and what `write` says.
struct GemmCall {
  Tensor c, a, b;
  Trans a_trans = Trans::no, b_trans = Trans::no;
  Tensor bias{}, scale{};
  Write write = Write::overwrite;

  std::int64_t M() const { return a_trans == Trans::yes ? a.cols() : a.rows(); }
  std::int64_t N() const { return b_trans == Trans::yes ? b.rows() : b.cols(); }
  std::int64_t K() const { return a_trans == Trans::yes ? a.rows() : a.cols(); }
};

}  // namespace mxtape::cuda
