#pragma once
#include <cuda_runtime.h>

#include <cstdint>
#include <tuple>
#include <utility>

#include "core/error.h"
#include "core/memory/pool.h"

namespace mxtape::cuda {

/// Throws Error(resource) if a call of the CUDA runtime failed: what was asked for, what the runtime says,
/// what to do. Errors of kernels that still run are reported by whatever call comes next.
void check(cudaError_t status, const char* what);

inline constexpr Pool::Memory device_memory = Pool::Memory::elsewhere;

/// The extents of one launch.
struct Launch {
  dim3 grid{1, 1, 1};
  unsigned threads = 256;        ///< of a block
  std::size_t shared_bytes = 0;  ///< of dynamic shared memory, device.cuh's dynamic_shared()
};

/// Blocks for `items` items, `per_block` each; at least one, as a grid may not be empty.
inline unsigned blocks_for(std::int64_t items, std::int64_t per_block) {
  const std::int64_t blocks = items > per_block ? (items + per_block - 1) / per_block : 1;
  require(blocks <= 0x7fffffff, "cuda: {} blocks in x; the limit is 2^31 - 1", blocks);
  return unsigned(blocks);
}

/// Starts `kernel` on `stream`. Arguments are converted to the kernel's parameter types.
template <class... P, class... A>
void launch(const char* name, cudaStream_t stream, const Launch& how, void (*kernel)(P...), A&&... args) {
  if (how.shared_bytes > 0) {
    // What a kernel may have without asking is 48 KiB less its static shared memory. Never lowered: a launch
    // that was recorded may need more than this one.
    cudaFuncAttributes allowed{};
    check(cudaFuncGetAttributes(&allowed, kernel), name);
    if (how.shared_bytes > std::size_t(allowed.maxDynamicSharedSizeBytes))
      check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, int(how.shared_bytes)),
            name);
  }
  std::tuple<P...> values(std::forward<A>(args)...);
  std::apply(
      [&](auto&... value) {
        void* pointers[] = {&value...};
        check(cudaLaunchKernel(kernel, how.grid, dim3(how.threads), pointers, how.shared_bytes, stream),
              name);
      },
      values);
}

}  // namespace mxtape::cuda
