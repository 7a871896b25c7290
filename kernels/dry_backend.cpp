#include "kernels/dry_backend.h"

#include <cstring>

namespace mxtape {

DryBackend::DryBackend() {
  // Addresses that differ, as code may ask whether two tensors share storage, in a page that is never mapped.
  pool_ = Pool::create(
      [next = std::uintptr_t{0}](std::int64_t) mutable { return reinterpret_cast<void*>(next += 256); },
      [](void*) {});
}

Tensor DryBackend::empty(Shape shape, DType dtype) {
  return {pool_->take(shape.count() * size_of(dtype)), shape, dtype};
}

void DryBackend::download(void* host, const Tensor& x) { std::memset(host, 0, std::size_t(x.bytes())); }

void DryBackend::gemm(const Tensor& c, const Operand& a, const Operand& b, const Tensor&, Write) {
  const std::int64_t k = a.trans == Trans::yes ? a.values.rows() : a.values.cols();
  Gemms& gemms = a.values.dtype() == DType::bf16 && b.values.dtype() == DType::bf16 ? bf16_ : f32_;
  ++gemms.calls;
  gemms.flops += 2.0 * double(c.count()) * double(k);
}

}  // namespace mxtape
