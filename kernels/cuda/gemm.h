#pragma once
#include <memory>

#include "kernels/backend.h"
#include "kernels/cuda/stream.h"

namespace mxtape::cuda {

/// cuBLASLt, loaded at run time: a program built with CUDA starts on machines without it.
class GemmLibrary {
 public:
  /// Throws Error(resource) if the library is missing or too old.
  explicit GemmLibrary(const Stream&);
  ~GemmLibrary();
  /// "cuBLASLt 13.1.0".
  std::string description() const;

  /// Backend::gemm, its shapes checked. Multipliers are read on the device.
  void multiply(const Tensor& c, const Operand& a, const Operand& b, const Tensor& bias, Write);

 private:
  struct Library;
  std::unique_ptr<Library> library_;
};

}  // namespace mxtape::cuda
