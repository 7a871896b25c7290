#pragma once
#include <cuda_runtime.h>

#include <cstdint>
#include <functional>
#include <string>

namespace mxtape::cuda {

/// The device and the one stream that everything is done on, with a staging buffer of pinned memory for
/// uploads.
class Stream {
 public:
  /// Throws Error(resource) if no device can be used.
  Stream();
  ~Stream();
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  cudaStream_t get() const { return stream_; }
  const std::string& device_name() const { return name_; }  ///< "NVIDIA H200, sm_90, 132 SMs, 139.8 GiB"
  /// Shared memory that a block can have.
  std::int64_t shared_bytes() const { return shared_bytes_; }

  /// `host` is read before it returns; does not wait for the device unless the staging buffer is full.
  void upload(void* device, const void* host, std::int64_t bytes);
  void download(void* host, const void* device, std::int64_t bytes);
  void wait();

  /// Between these two, calls are written down instead of done. What cannot be written down (upload,
  /// download, wait) is an Error that names it and `what`. Throws, and captures no more, if CUDA refuses.
  void begin_capture(const std::string& what);
  cudaGraph_t end_capture();

 private:
  void require_no_capture(const char* call) const;

  cudaStream_t stream_ = nullptr;
  std::string name_;
  std::int64_t shared_bytes_ = 0;
  void* staging_ = nullptr;
  std::int64_t staged_ = 0;  // bytes of the staging buffer that copies under way may read
  std::string captured_;     // the name of what is being captured; empty: nothing is
};

/// Calls that were made once and can be made again with one launch: a CUDA graph. Kernel arguments are those
/// of the first time; the memory they point to must stay.
class Recording {
 public:
  /// Writes down what `work` does on the stream. Nothing is done yet. Throws what `work` throws.
  Recording(Stream&, const std::string& name, const std::function<void()>& work);
  ~Recording();
  Recording(const Recording&) = delete;

  void replay() const;

 private:
  Stream& stream_;
  cudaGraphExec_t executable_ = nullptr;
};

}  // namespace mxtape::cuda
