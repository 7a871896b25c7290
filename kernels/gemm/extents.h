#pragma once
#include "core/error.h"
#include "kernels/calls.h"

namespace mxtape {

/// The extents of a product c[M, N] = a[M, K] b[K, N].
struct GemmExtents {
  std::int64_t M, N, K;
};

/// Throws Error if the operands do not agree with each other, with c or with the bias.
inline GemmExtents extents_of(const call::Gemm& call) {
  const auto rows = [](const Operand& x) {
    return x.trans == Trans::yes ? x.values.cols() : x.values.rows();
  };
  const auto cols = [](const Operand& x) {
    return x.trans == Trans::yes ? x.values.rows() : x.values.cols();
  };
  const bool codes = call.a.values.dtype() == DType::u8;
  require(codes == (call.b.values.dtype() == DType::u8), "gemm: a is {}, b is {}; codes multiply codes only",
          name_of(call.a.values.dtype()), name_of(call.b.values.dtype()));
  const CodeLayout &a = call.a.layout, &b = call.b.layout;
  const GemmExtents e =
      codes ? GemmExtents{a.lines, b.lines, a.depth} : GemmExtents{rows(call.a), cols(call.b), cols(call.a)};
  require((codes ? b.depth : rows(call.b)) == e.K && call.c.count() == e.M * e.N,
          "gemm: a is {}{}, b is {}{}, c is {} {}; want c[M, N] = a[M, K] b[K, N]",
          call.a.values.shape().text(), call.a.trans == Trans::yes ? " transposed" : "",
          call.b.values.shape().text(), call.b.trans == Trans::yes ? " transposed" : "",
          name_of(call.c.dtype()), call.c.shape().text());
  require(!call.bias || call.bias.count() == e.N, "gemm: bias is {}; want [{}]", call.bias.shape().text(),
          e.N);
  return e;
}

/// 2 M N K.
inline double flops_of(const call::Gemm& call) {
  const GemmExtents e = extents_of(call);
  return 2.0 * double(e.M) * double(e.N) * double(e.K);
}

}  // namespace mxtape
