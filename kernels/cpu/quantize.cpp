#include "core/error.h"
#include "core/parallel.h"
#include "kernels/cpu/cpu_backend.h"

namespace mxtape {

void CpuBackend::quantize(std::span<QuantizedCopy> copies, const Tensor& x, const DrawKey& draws,
                          const Tensor& column_sums, Write sums) {
  const std::int64_t rows = x.rows(), cols = x.cols();
  for (QuantizedCopy& copy : copies) {
    const Quantizer& q = copy.quantizer;
    require(copy.values.count() == x.count() && copy.values.dtype() == q.operand_dtype(),
            "quantize: x is {}, the copy {} {}; want {}", x.shape().text(), name_of(copy.values.dtype()),
            copy.values.shape().text(), name_of(q.operand_dtype()));
    require(copy.rotation.size == 0, "quantize: rotation");
    const bool narrow = q.operand_dtype() == DType::bf16;
    const Tensor values = narrow ? empty(x.shape()) : copy.values;
    const float multiplier = quantize_reference(values.data(), x.data(), rows, cols, copy.axis, q, draws);
    if (copy.multiplier) *copy.multiplier.data() = multiplier;
    if (narrow)
      for (std::int64_t i = 0; i < x.count(); ++i) copy.values.data<bf16>()[i] = to_bf16(values.data()[i]);
  }
  if (column_sums) {
    for (std::int64_t c = 0; c < cols; ++c) {
      float sum = 0;
      for (std::int64_t r = 0; r < rows; ++r) sum += x.data()[r * cols + c];
      float& out = column_sums.data()[c];
      out = sums == Write::accumulate ? out + sum : sum;
    }
  }
}

}  // namespace mxtape
