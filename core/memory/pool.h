#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

namespace mxtape {

/// Recycles blocks of one device's memory. A training step asks for the same sizes in the same order, so from
/// the second step on each request finds the block it had before: no page is touched for the first time (slow
/// on virtual machines) and the peak is known. Blocks go back when the last Tensor that uses them dies.
class Pool : public std::enable_shared_from_this<Pool> {
 public:
  using Allocate = std::function<void*(std::int64_t bytes)>;  ///< returns null when there is no memory
  using Release = std::function<void(void*)>;

  /// Whether the processor can touch the memory: then the address sanitizer is told who may.
  enum class Memory { host, elsewhere };

  static std::shared_ptr<Pool> create(Allocate allocate, Release release, Memory memory = Memory::elsewhere);
  ~Pool();
  Pool(const Pool&) = delete;

  /// Uninitialised memory, aligned as the device's allocator aligns. Throws Error(resource) when there is
  /// none, the idle blocks given back.
  std::shared_ptr<void> take(std::int64_t bytes);

  std::int64_t used_bytes() const { return locked(used_); }          ///< handed out now
  std::int64_t peak_bytes() const { return locked(peak_); }          ///< most ever handed out at a time
  std::int64_t reserved_bytes() const { return locked(reserved_); }  ///< asked from the device, used or idle
  /// Gives unused blocks back to the device.
  void trim();

 private:
  Pool(Allocate allocate, Release release, Memory memory)
      : allocate_(std::move(allocate)), release_(std::move(release)), memory_(memory) {}
  std::int64_t locked(const std::int64_t& bytes) const {
    std::lock_guard lock(mutex_);
    return bytes;
  }
  /// Only the first `used` of the block's `bytes` may be touched.
  void allow(void* block, std::int64_t used, std::int64_t bytes) const;
  void give_back(void* block, std::int64_t bytes);
  void release_idle();  // with mutex_ held

  Allocate allocate_;
  Release release_;
  [[maybe_unused]] Memory memory_;
  mutable std::mutex mutex_;
  std::map<std::int64_t, std::vector<void*>> idle_;  // by size, last used first: still warm in the cache
  std::int64_t used_ = 0, peak_ = 0, reserved_ = 0;
};

}  // namespace mxtape
