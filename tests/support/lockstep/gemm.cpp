#include "kernels/cuda/gemm/gemm_library.h"

#include <vector>

#include "core/error.h"
#include "tests/support/lockstep/lockstep.h"

// Stands in for cuBLASLt on the host: plain loops with sums in double.
namespace mxtape::cuda {
namespace {

float value_at(const Tensor& x, std::int64_t i) {
  return x.dtype() == DType::bf16 ? to_f32(x.data<bf16>()[i]) : x.data()[i];
}
/// x by lines along the sum, or `turned` across it.
std::vector<double> rows_of(const Tensor& x, bool turned) {
  std::vector<double> values(std::size_t(x.count()));
  for (std::int64_t row = 0; row < x.rows(); ++row)
    for (std::int64_t col = 0; col < x.cols(); ++col)
      values[std::size_t(turned ? col * x.rows() + row : row * x.cols() + col)] =
          value_at(x, row * x.cols() + col);
  return values;
}

/// x without a share in its memory: like a kernel's pointer, it keeps nothing alive.
Tensor borrowed(const Tensor& x) { return {{std::shared_ptr<void>{}, x.raw()}, x.shape(), x.dtype()}; }
GemmCall borrowed(GemmCall call) {
  for (Tensor* x : {&call.c, &call.a, &call.b, &call.bias, &call.scale}) *x = borrowed(*x);
  return call;
}

}  // namespace

struct GemmLibrary::Library {
  const Stream& stream;
  const Tensor workspace;  // held, not used: memory is taken as on a GPU
};

GemmLibrary::GemmLibrary(const Stream& stream, const Tensor& workspace)
    : library_(new Library{stream, workspace}) {}
GemmLibrary::~GemmLibrary() = default;
std::string GemmLibrary::description() const { return "loops on the host"; }
std::vector<std::string> GemmLibrary::chosen() const { return {}; }

void GemmLibrary::multiply(const GemmCall& given) {
  const GemmCall call = borrowed(given);
  require(call.a.dtype() == call.b.dtype() &&
              (call.a.dtype() == DType::bf16 || call.c.dtype() == DType::f32) &&
              (!call.bias || (call.bias.dtype() == call.c.dtype() &&
                              reinterpret_cast<std::uintptr_t>(call.bias.raw()) % 16 == 0)) &&
              call.K() > 0 && call.c.count() > 0,
          "lockstep: cuBLASLt does not take this product");
  host::enqueue(library_->stream.get(), [=] {
    const std::int64_t M = call.M(), N = call.N(), K = call.K();
    const float alpha = call.scale ? call.scale.data()[0] : 1.0f;
    const float beta = call.scale ? call.scale.data()[1] : call.write == Write::accumulate ? 1.0f : 0.0f;
    const auto a = rows_of(call.a, call.a_axis == Axis::column);
    const auto b = rows_of(call.b, call.b_axis == Axis::column);
    for (std::int64_t m = 0; m < M; ++m)
      for (std::int64_t n = 0; n < N; ++n) {
        double sum = 0;
        for (std::int64_t k = 0; k < K; ++k) sum += a[std::size_t(m * K + k)] * b[std::size_t(n * K + k)];
        const std::int64_t i = m * N + n;
        const float before = beta == 0 ? 0.0f : beta * value_at(call.c, i);  // BLAS: c is not read then
        const float value = float(sum) * alpha + before + (call.bias ? value_at(call.bias, n) : 0.0f);
        if (call.c.dtype() == DType::bf16)
          call.c.data<bf16>()[i] = to_bf16(value);
        else
          call.c.data()[i] = value;
      }
  });
}

}  // namespace mxtape::cuda
