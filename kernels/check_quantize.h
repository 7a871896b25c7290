#pragma once
#include "core/error.h"
#include "kernels/backend.h"

namespace mxtape {

/// What Backend::quantize wants of its arguments. Throws Error that names the quantizer.
inline void check_quantize(std::span<const QuantizedCopy> copies, const Tensor& x,
                           const Tensor& column_sums) {
  require(!column_sums || (column_sums.count() == x.cols() && column_sums.dtype() == DType::f32),
          "quantize: column_sums is {} {}; want f32 [{}]", name_of(column_sums.dtype()),
          column_sums.shape().text(), x.cols());
  for (const QuantizedCopy& copy : copies) {
    const Quantizer& q = copy.quantizer;
    const std::string contradiction = q.contradiction();
    require(contradiction.empty(), ExitCode::usage, "quantizer '{}': {}", to_text(q), contradiction);
    require(copy.values.count() == x.count() && copy.values.dtype() == q.operand_dtype(),
            "quantize: x is {}, the copy {} {}; want as many {}", x.shape().text(),
            name_of(copy.values.dtype()), copy.values.shape().text(), name_of(q.operand_dtype()));
    require(q.has_multiplier() == bool(copy.multiplier), "quantize: '{}' {} a multiplier", to_text(q),
            q.has_multiplier() ? "needs" : "has no");
  }
}

}  // namespace mxtape
