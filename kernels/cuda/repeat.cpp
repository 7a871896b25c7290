#include "kernels/cuda/cuda_backend.h"

namespace mxtape {

std::vector<Tensor> CudaBackend::repeat(const std::string&,
                                        const std::function<std::vector<Tensor>()>& work) {
  return work();
}

}  // namespace mxtape
