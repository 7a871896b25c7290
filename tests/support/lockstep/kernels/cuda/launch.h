#pragma once
// kernels/cuda/launch.h for the host: see lockstep.h. Found first by the include path.
#include <tuple>
#include <utility>

#include "core/error.h"
#include "core/memory/pool.h"
#include "tests/support/lockstep/lockstep.h"

namespace mxtape::cuda {

void check(cudaError_t status, const char* what);

inline constexpr Pool::Memory device_memory = Pool::Memory::host;  // for the address sanitizer to watch

struct Launch {
  dim3 grid{1, 1, 1};
  unsigned threads = 256;
  std::size_t shared_bytes = 0;
};

inline unsigned blocks_for(std::int64_t items, std::int64_t per_block) {
  const std::int64_t blocks = items > per_block ? (items + per_block - 1) / per_block : 1;
  require(blocks <= 0x7fffffff, "cuda: {} blocks in x; the limit is 2^31 - 1", blocks);
  return unsigned(blocks);
}

template <class... P, class... A>
void launch(const char* name, cudaStream_t stream, const Launch& how, void (*kernel)(P...), A&&... args) {
  host::enqueue(stream, [=, values = std::tuple<P...>(std::forward<A>(args)...)] {
    host::run_grid(name, how.grid, how.threads, how.shared_bytes, [&] { std::apply(kernel, values); });
  });
}

}  // namespace mxtape::cuda
