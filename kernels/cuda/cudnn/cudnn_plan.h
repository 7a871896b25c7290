#pragma once
#include "kernels/cuda/cudnn/cudnn_graph.h"

namespace mxtape::cuda::cudnn {

/// The device that plans are made for: the current one of the CUDA runtime.
Descriptor present_device(const Library&);
/// One that need not be there, described in cuDNN's JSON: kernels can be looked for, but not run.
Descriptor described_device(const Library&, const std::string& json);

/// The configurations of cuDNN's engines that its heuristics suggest for a graph, best first, without those
/// that say that their results differ from run to run.
std::vector<Descriptor> deterministic_configs(const Descriptor& graph, const Descriptor& device);

/// A graph made ready to run, by the first suggestion that can be. May compile a kernel: seconds.
class Plan {
 public:
  /// Throws Error(resource) with cuDNN's reason if none can be.
  Plan(const Graph&, const Descriptor& device);
  std::int64_t workspace_bytes() const { return workspace_bytes_; }
  /// `pointers` of Graph::stored() and Graph::scalar(), in the order of these calls. On the handle's stream;
  /// may be recorded in a CUDA graph.
  void run(cudnnHandle_t, const std::vector<void*>& pointers, void* workspace) const;

 private:
  Descriptor build(const Graph&, const Descriptor& device);
  std::vector<std::int64_t> ids_;
  Descriptor plan_;
  std::int64_t workspace_bytes_ = 0;
};

}  // namespace mxtape::cuda::cudnn
