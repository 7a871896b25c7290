#pragma once
#include <memory>
#include <string>
#include <vector>

#include "kernels/cuda/gemm/gemm_call.h"
#include "kernels/cuda/stream.h"

namespace mxtape::cuda {

/// cuBLASLt, loaded at run time: a program built with CUDA starts on machines without it. The algorithm of a
/// product is chosen once, by its shape, types, transposes, epilogue and alignments, and kept: so a repeated
/// call adds in the same order, and costs the host a search in a map. Calls can be recorded in CUDA graphs.
class GemmLibrary {
 public:
  /// NVIDIA's recommendation for Hopper; splitting K takes the most.
  static constexpr std::int64_t workspace_bytes = std::int64_t{32} << 20;

  /// `workspace` is device memory of that size. Throws Error(resource) if the library is missing, too old,
  /// or does not run on this device.
  GemmLibrary(const Stream&, const Tensor& workspace);
  ~GemmLibrary();
  /// "cuBLASLt 13.1.0".
  std::string description() const;

  /// Throws Error(resource) if the library has no algorithm for the product or fails.
  void multiply(const GemmCall&);

  /// The products seen so far, each with the algorithm that was chosen for it, for the record of a run.
  std::vector<std::string> chosen() const;

 private:
  struct Library;
  std::unique_ptr<Library> library_;
};

}  // namespace mxtape::cuda
