#include "kernels/cuda/cuda_backend.h"

#include <algorithm>

#include "core/error.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/make_cuda_backend.h"

namespace mxtape {

std::unique_ptr<Backend> make_cuda_backend(const BackendOptions& options) {
  return std::make_unique<CudaBackend>(options);
}

CudaBackend::CudaBackend(const BackendOptions& options)
    : options_(options),
      pool_(Pool::create(
          [](std::int64_t bytes) {
            void* block = nullptr;
            const cudaError_t status = cudaMalloc(&block, std::size_t(bytes));
            if (status == cudaErrorMemoryAllocation) {
              cudaGetLastError();  // forget it: the pool tries again, then reports
              return static_cast<void*>(nullptr);
            }
            cuda::check(status, "device memory");
            return block;
          },
          [](void* block) {
            cudaDeviceSynchronize();  // kernels under way may use it; cudaFree() alone need not wait for them
            cudaFree(block);
          },
          cuda::device_memory)),
      arena_(pool_),
      gemms_(stream_, empty({cuda::GemmLibrary::workspace_bytes}, DType::u8)),
      clocks_(empty({2}, DType::i32)) {
  set_clocks(0, 0);
  if (options.attention == AttentionKernels::cudnn)
    cudnn_attention_ = std::make_unique<cuda::CudnnAttention>(*this, stream_);
  fill(empty({1}), 0);  // a device that the program has no kernels for is found out here
}

CudaBackend::~CudaBackend() = default;

std::string CudaBackend::description() const {
  return fmt::format("cuda, {}, {}{}", stream_.device_name(), gemms_.description(),
                     cudnn_attention_ ? ", attention by " + cudnn_attention_->description() : "");
}

void CudaBackend::dispatch(AnyCall any) {
  visit([this](const auto* call) { compute(*call); }, any);
}

Tensor CudaBackend::empty(Shape shape, DType dtype) {
  return {arena_.take(shape.count() * size_of(dtype)), shape, dtype};
}

void CudaBackend::upload(const Tensor& y, const void* host) { stream_.upload(y.raw(), host, y.bytes()); }
void CudaBackend::download(void* host, const Tensor& x) { stream_.download(host, x.raw(), x.bytes()); }

std::int64_t CudaBackend::capacity_bytes(int) const {
  // Kernels that libraries load at their first use, the memory of threads that spill, the graph of a step.
  constexpr std::int64_t taken_later = std::int64_t{512} << 20;
  std::size_t free = 0, total = 0;
  cuda::check(cudaMemGetInfo(&free, &total), "free memory");
  return std::max<std::int64_t>(std::int64_t(free) - taken_later, 0) + pool_->reserved_bytes();
}

void CudaBackend::trim() {
  stream_.wait();  // kernels under way may still use what is idle
  arena_.trim();
  pool_->trim();
}

void CudaBackend::set_clocks(std::uint32_t pass, std::uint32_t update) {
  clock_values_ = {pass, update};
  upload(clocks_, clock_values_.data());
}

cuda::ClockedKey CudaBackend::clocked(const DrawKey& key) const {
  if (key.clock == Clock::none) return {key, nullptr};
  const std::size_t which = key.clock == Clock::pass ? 0 : 1;
  cuda::ClockedKey clocked{key, clocks_.data<std::int32_t>() + which};
  clocked.key.step -= clock_values_[which];
  return clocked;
}

}  // namespace mxtape
