#include "kernels/cuda/gemm.h"

#include "core/error.h"
#include "tests/support/lockstep/lockstep.h"

// Stands in for cuBLASLt on the host: plain loops with sums in double.
namespace mxtape::cuda {
namespace {

float element(const Operand& x, std::int64_t row, std::int64_t col) {
  const std::int64_t i = x.trans == Trans::yes ? col * x.values.cols() + row : row * x.values.cols() + col;
  return x.values.dtype() == DType::bf16 ? to_f32(x.values.data<bf16>()[i]) : x.values.data()[i];
}

}  // namespace

struct GemmLibrary::Library {
  const Stream& stream;
};

GemmLibrary::GemmLibrary(const Stream& stream) : library_(new Library{stream}) {}
GemmLibrary::~GemmLibrary() = default;
std::string GemmLibrary::description() const { return "loops on the host"; }

void GemmLibrary::multiply(const Tensor& c, const Operand& a, const Operand& b, const Tensor& bias,
                           Write write) {
  host::enqueue(library_->stream.get(), [=] {
    const std::int64_t K = a.trans == Trans::yes ? a.values.rows() : a.values.cols();
    const std::int64_t M = a.values.count() / K, N = b.values.count() / K;
    const float factor =
        (a.multiplier ? *a.multiplier.data() : 1.0f) * (b.multiplier ? *b.multiplier.data() : 1.0f);
    for (std::int64_t m = 0; m < M; ++m)
      for (std::int64_t n = 0; n < N; ++n) {
        double sum = 0;
        for (std::int64_t k = 0; k < K; ++k) sum += double(element(a, m, k)) * double(element(b, k, n));
        const float value = float(sum) * factor + (bias ? bias.data()[n] : 0.0f);
        const std::int64_t i = m * N + n;
        if (c.dtype() == DType::bf16)
          c.data<bf16>()[i] = to_bf16(value);
        else
          c.data()[i] = write == Write::accumulate ? c.data()[i] + value : value;
      }
  });
}

}  // namespace mxtape::cuda
