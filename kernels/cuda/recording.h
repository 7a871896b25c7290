#pragma once
#include <cuda_runtime.h>

#include <functional>
#include <string>

#include "kernels/cuda/stream.h"

namespace mxtape::cuda {

/// Calls that were made once and can be made again with one launch: a CUDA graph. Kernel arguments are those
/// of the first time; the memory they point to must stay.
class Recording {
 public:
  /// Writes down what `work` does on the stream. Nothing is done yet. Throws what `work` throws.
  Recording(Stream&, const std::string& name, const std::function<void()>& work);
  ~Recording();
  Recording(const Recording&) = delete;
  Recording& operator=(const Recording&) = delete;

  void replay() const;

 private:
  Stream& stream_;
  cudaGraphExec_t executable_ = nullptr;
};

}  // namespace mxtape::cuda
