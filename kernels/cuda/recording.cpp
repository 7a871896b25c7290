#include "kernels/cuda/recording.h"

#include "kernels/cuda/launch.h"

namespace mxtape::cuda {

Recording::Recording(Stream& stream, const std::string& name, const std::function<void()>& work)
    : stream_(stream) {
  stream_.begin_capture(name);
  try {
    work();
  } catch (...) {
    // The first failure is the one to report.
    try {
      cudaGraphDestroy(stream_.end_capture());
    } catch (const Error&) {
    }
    throw;
  }
  const cudaGraph_t graph = stream_.end_capture();
  const cudaError_t status = cudaGraphInstantiate(&executable_, graph, 0);
  cudaGraphDestroy(graph);
  check(status, "making a graph");
}

Recording::~Recording() { cudaGraphExecDestroy(executable_); }

void Recording::replay() const { check(cudaGraphLaunch(executable_, stream_.get()), "launching a graph"); }

}  // namespace mxtape::cuda
