#pragma once
#include "core/error.h"
#include "kernels/calls.h"

namespace mxtape {

/// The extents of a product c[M, N] = sum over k of a(m, k) b(n, k).
struct GemmExtents {
  std::int64_t M, N, K;
};

/// Throws Error if the operands do not agree with each other, with c or with the bias, or if the blocks of
/// one do not run along the sum.
inline GemmExtents extents_of(const call::Gemm& call) {
  const auto lines = [](const Rounded& x) { return x.axis == Axis::row ? x.rows() : x.cols(); };
  const auto depth = [](const Rounded& x) { return x.axis == Axis::row ? x.cols() : x.rows(); };
  const auto text = [](const Rounded& x) {
    return fmt::format("{} {} summed along {}", x.elements ? name_of(x.elements.dtype()) : "no", x.shape,
                       x.axis == Axis::row ? "rows" : "columns");
  };
  const GemmExtents e{lines(call.a), lines(call.b), depth(call.a)};
  if (depth(call.b) != e.K || call.c.count() != e.M * e.N)
    fail(ExitCode::internal,
         "gemm: a is {}, b is {}, c is {} {}; want c[M, N] = sum over k of a(m, k) b(n, k)", text(call.a),
         text(call.b), name_of(call.c.dtype()), call.c.shape());
  for (const Rounded* x : {&call.a, &call.b}) {
    const bool values = x->layout == Layout::values;
    if (x->layout != call.a.layout || (!values && x->layout != Layout::codes))
      fail(ExitCode::internal, "gemm: a is {}, b is {}; want both as values or both as codes", text(call.a),
           text(call.b));
    if (values && (!x->elements || x->elements.count() != x->shape.count()))
      fail(ExitCode::internal, "gemm: {} is {}, but has {} values", name_of(x->site.slot), text(*x),
           x->elements ? x->elements.count() : 0);
    const bool either =
        values && (x->shared || (serves_both_axes(x->by.quantizer) && x->by.rotation.size == 0));
    if (x->by.axis != x->axis && !either)
      fail(ExitCode::internal, "gemm: {} is {}, but the blocks of '{}' run along the other axis",
           name_of(x->site.slot), text(*x), x->by.quantizer);
  }
  require(!call.bias || call.bias.count() == e.N, "gemm: bias is {}; want [{}]", call.bias.shape(), e.N);
  return e;
}

/// 2 M N K.
inline double flops_of(const call::Gemm& call) {
  const GemmExtents e = extents_of(call);
  return 2.0 * double(e.M) * double(e.N) * double(e.K);
}

}  // namespace mxtape
