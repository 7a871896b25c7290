#include "kernels/side/side_stream.h"

#include <array>

#include "kernels/cuda/cuda_backend.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/make_cuda_backend.h"

namespace mxtape {
namespace {

class CudaSideStream final : public SideStream {
 public:
  explicit CudaSideStream(cudaStream_t of_backend) : backend_(of_backend) {
    int lowest = 0, highest = 0;
    cuda::check(cudaDeviceGetStreamPriorityRange(&lowest, &highest), "priorities of streams");
    // Others wait for what is moved: its kernels go before those that compute.
    cuda::check(cudaStreamCreateWithPriority(&stream_, cudaStreamNonBlocking, highest), "creating a stream");
    for (cudaEvent_t* event : {&asked_, &moved_})
      cuda::check(cudaEventCreateWithFlags(event, cudaEventDisableTiming), "creating an event");
  }
  ~CudaSideStream() override {
    for (const cudaEvent_t event : {asked_, moved_}) cudaEventDestroy(event);
    cudaStreamDestroy(stream_);
  }

  void* handle() const override { return stream_; }
  void follow_backend() override { order(asked_, backend_, stream_); }
  void lead_backend() override { order(moved_, stream_, backend_); }
  bool done() override {
    const cudaError_t status = cudaStreamQuery(stream_);
    if (status == cudaErrorNotReady) return false;
    cuda::check(status, "an exchange");
    return true;
  }

 private:
  /// An event may be recorded again while others wait for what it was recorded for before.
  static void order(cudaEvent_t event, cudaStream_t before, cudaStream_t after) {
    cuda::check(cudaEventRecord(event, before), "recording an event");
    cuda::check(cudaStreamWaitEvent(after, event, 0), "waiting for an event");
  }

  cudaStream_t backend_, stream_ = nullptr;
  cudaEvent_t asked_ = nullptr, moved_ = nullptr;
};

}  // namespace

std::unique_ptr<SideStream> make_cuda_side_stream(Backend& backend) {
  const auto* const gpu = dynamic_cast<CudaBackend*>(&backend);
  require(gpu != nullptr, "side stream: '{}' has no streams", backend.description());
  return std::make_unique<CudaSideStream>(gpu->stream());
}

std::string choose_cuda_gpu(int local_rank) {
  int count = 0;
  const cudaError_t counted = cudaGetDeviceCount(&count);
  if (counted != cudaSuccess) cudaGetLastError();  // forget it: who makes a backend says what is wrong
  if (counted != cudaSuccess || count == 0) return "";
  require(count == 1 || local_rank < count, ExitCode::resource,
          "cuda: process {} of this host, counted from 0, wants a GPU of its own, and sees {}; start as many "
          "processes as there are GPUs, or look at CUDA_VISIBLE_DEVICES",
          local_rank, count);
  const int device = count == 1 ? 0 : local_rank;
  cuda::check(cudaSetDevice(device), "choosing a device");
  std::array<char, 64> name{};
  cuda::check(cudaDeviceGetPCIBusId(name.data(), int(name.size()), device), "the place of a device");
  return name.data();
}

}  // namespace mxtape
