#include "kernels/side_stream.h"

#include <array>
#include <map>

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
  }
  ~CudaSideStream() override {
    for (const auto* events : {&asked_, &marked_, &arrived_})
      for (const auto& [place, event] : *events) cudaEventDestroy(event);
    cudaStreamDestroy(stream_);
  }

  void* handle() const override { return stream_; }
  void follow_backend() override {
    record(asked_, 0, backend_);
    wait(stream_, asked_, 0);
  }
  void mark(int place) override { record(marked_, place, backend_); }
  void follow_mark(int place) override { wait(stream_, marked_, place); }
  void arrive(int place) override { record(arrived_, place, stream_); }
  void lead_backend(int place) override { wait(backend_, arrived_, place); }
  bool done() override {
    const cudaError_t status = cudaStreamQuery(stream_);
    if (status == cudaErrorNotReady) return false;
    cuda::check(status, "an exchange");
    return true;
  }

 private:
  using Events = std::map<int, cudaEvent_t>;  // by place

  /// An event may be recorded again while others wait for what it was recorded for before. In a graph that is
  /// being captured it is a node: each launch records it anew, for who waits from then on
  /// (cudaGraphAddEventRecordNode).
  static void record(Events& events, int place, cudaStream_t stream) {
    cudaEvent_t& event = events[place];
    if (!event) cuda::check(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "creating an event");
    cudaStreamCaptureStatus status{};
    cuda::check(cudaStreamIsCapturing(stream, &status), "recording an event");
    const bool captured = status == cudaStreamCaptureStatusActive;
    cuda::check(cudaEventRecordWithFlags(event, stream, captured ? cudaEventRecordExternal : 0),
                "recording an event");
  }
  static void wait(cudaStream_t stream, const Events& events, int place) {
    const auto event = events.find(place);
    require(event != events.end(), "side stream: place {} is not marked", place);
    cuda::check(cudaStreamWaitEvent(stream, event->second, 0), "waiting for an event");
  }

  cudaStream_t backend_, stream_ = nullptr;
  Events asked_, marked_, arrived_;
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
