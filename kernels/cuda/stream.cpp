#include "kernels/cuda/stream.h"

#include <algorithm>
#include <cstring>

#include "core/error.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/make_cuda_backend.h"

namespace mxtape::cuda {
namespace {

constexpr std::int64_t staging_bytes = std::int64_t{4} << 20;  // the tokens of a large batch
constexpr int oldest_supported = 8;  // compute capability 8.0, Ampere: bf16 products

std::string version_text(int v) { return fmt::format("{}.{}", v / 1000, v % 1000 / 10); }

}  // namespace

void check(cudaError_t status, const char* what) {
  if (status == cudaSuccess) [[likely]]
    return;
  if (status == cudaErrorMemoryAllocation)
    fail(ExitCode::resource,
         "cuda: {}: out of memory. Lower train.batch_size (and raise train.accumulation), or model.context",
         what);
#ifdef MXTAPE_CUDA_ARCHITECTURES
  if (status == cudaErrorNoKernelImageForDevice)
    fail(ExitCode::resource,
         "cuda: {}: this program has no kernels for this device, only for {}; build it with "
         "-DCMAKE_CUDA_ARCHITECTURES=native, or use the device cpu",
         what, MXTAPE_CUDA_ARCHITECTURES);
#endif
  fail(ExitCode::resource, "cuda: {}: {} ({}); the last checkpoint is intact", what,
       cudaGetErrorString(status), cudaGetErrorName(status));
}

Stream::Stream() {
  int driver = 0, runtime = 0, devices = 0;
  check(cudaRuntimeGetVersion(&runtime), "runtime version");
  if (cudaDriverGetVersion(&driver) != cudaSuccess) driver = 0;
  require(driver > 0, ExitCode::resource,
          "cuda: no NVIDIA driver on this machine; install one for CUDA {} or newer, or use the device cpu",
          version_text(runtime));
  // Within a major version a driver runs what was built with a newer minor one.
  require(driver / 1000 >= runtime / 1000, ExitCode::resource,
          "cuda: the driver is for CUDA {}, this program was built with {}; install a newer driver, or use "
          "the device cpu",
          version_text(driver), version_text(runtime));
  const cudaError_t counted = cudaGetDeviceCount(&devices);
  require(counted == cudaSuccess && devices > 0, ExitCode::resource,
          "cuda: no device ({}); look at nvidia-smi and CUDA_VISIBLE_DEVICES, or use the device cpu",
          cudaGetErrorString(counted));
  int chosen = 0;  // choose_cuda_gpu()
  check(cudaGetDevice(&chosen), "the device of this thread");
  check(cudaSetDevice(chosen), "choosing a device");
  cudaDeviceProp device;
  check(cudaGetDeviceProperties(&device, chosen), "device properties");
  name_ = fmt::format("{}, sm_{}{}, {} SMs, {:.1f} GiB", device.name, device.major, device.minor,
                      device.multiProcessorCount, double(device.totalGlobalMem) / 0x1p30);
  shared_bytes_ = std::int64_t(device.sharedMemPerBlockOptin);
  require(device.major >= oldest_supported, ExitCode::resource,
          "cuda: {} has compute capability {}.{}; want {}.0 or newer (Ampere), or the device cpu",
          device.name, device.major, device.minor, oldest_supported);
  check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "creating a stream");
  check(cudaMallocHost(&staging_, staging_bytes), "pinned memory for uploads");
}

Stream::~Stream() {
  if (stream_) {
    cudaStreamSynchronize(stream_);
    cudaStreamDestroy(stream_);
  }
  if (staging_) cudaFreeHost(staging_);
}

void Stream::upload(void* device, const void* host, std::int64_t bytes) {
  require_no_capture("upload");
  const auto* from = static_cast<const char*>(host);
  auto* to = static_cast<char*>(device);
  while (bytes > 0) {
    if (staged_ == staging_bytes) wait();
    const std::int64_t part = std::min(bytes, staging_bytes - staged_);
    char* const staged = static_cast<char*>(staging_) + staged_;
    std::memcpy(staged, from, std::size_t(part));
    check(cudaMemcpyAsync(to, staged, std::size_t(part), cudaMemcpyHostToDevice, stream_), "upload");
    from += part, to += part, bytes -= part, staged_ += part;
  }
}

void Stream::download(void* host, const void* device, std::int64_t bytes) {
  require_no_capture("download");
  if (bytes > 0)
    check(cudaMemcpyAsync(host, device, std::size_t(bytes), cudaMemcpyDeviceToHost, stream_), "download");
  wait();
}

void Stream::wait() {
  require_no_capture("wait");
  check(cudaStreamSynchronize(stream_), "waiting for the device");
  staged_ = 0;
}

void Stream::begin_capture(const std::string& what) {
  require_no_capture("another recording");
  check(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal), "recording");
  captured_ = what;
}

cudaGraph_t Stream::end_capture() {
  captured_.clear();
  cudaGraph_t graph = nullptr;
  check(cudaStreamEndCapture(stream_, &graph), "recording");
  return graph;
}

void Stream::require_no_capture(const char* call) const {
  require(captured_.empty(),
          "cuda: {} inside of '{}', which is being recorded: later runs do what was recorded, so it would "
          "see the values of this one. Move it before or behind repeat()",
          call, captured_);
}

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

std::string runtime_version() {
  int version = 0;
  (void)cudaRuntimeGetVersion(&version);  // fails only for a null pointer
  return version_text(version);
}

std::string driver_version() {
  int version = 0;
  return cudaDriverGetVersion(&version) == cudaSuccess && version > 0 ? version_text(version) : "";
}

}  // namespace mxtape::cuda
