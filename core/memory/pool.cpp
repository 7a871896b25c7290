#include "core/memory/pool.h"

#include <algorithm>
#include <cstring>

#include "core/error.h"
#if __has_include(<sanitizer/asan_interface.h>)
#include <sanitizer/asan_interface.h>  // its macros do nothing in builds without the sanitizer
#endif

namespace mxtape {

std::shared_ptr<Pool> Pool::create(Allocate allocate, Release release, Memory memory) {
  return std::shared_ptr<Pool>(new Pool(std::move(allocate), std::move(release), memory));
}

// The sanitizer cannot know by itself who has memory that is recycled without free().
void Pool::allow([[maybe_unused]] void* block, [[maybe_unused]] std::int64_t used,
                 [[maybe_unused]] std::int64_t bytes) const {
#ifdef ASAN_POISON_MEMORY_REGION
  if (memory_ != Memory::host) return;
  ASAN_UNPOISON_MEMORY_REGION(block, std::size_t(used));
  ASAN_POISON_MEMORY_REGION(static_cast<char*>(block) + used, std::size_t(bytes - used));
#if defined(__SANITIZE_ADDRESS__)
  std::memset(block, 0xff, std::size_t(used));  // NaN: what is read before it is written shows
#endif
#endif
}

Pool::~Pool() { trim(); }

std::shared_ptr<void> Pool::take(std::int64_t bytes) {
  constexpr std::int64_t granule = 256;
  const std::int64_t size = std::max<std::int64_t>((bytes + granule - 1) / granule * granule, granule);
  std::unique_lock lock(mutex_);
  void* block = nullptr;
  std::int64_t block_size = size;
  // A block up to an eighth larger serves too: less waste than asking for another.
  if (auto it = idle_.lower_bound(size); it != idle_.end() && it->first <= size + size / 8) {
    block = it->second.back();
    block_size = it->first;
    it->second.pop_back();
    if (it->second.empty()) idle_.erase(it);
  } else {
    block = allocate_(size);
    if (!block) {
      release_idle();
      block = allocate_(size);
    }
    if (!block)
      fail(ExitCode::resource,
           "memory: cannot get {:.1f} MiB more; {:.1f} MiB are in use. In training, lower train.batch_size, "
           "model.layers or model.width",
           double(size) / 0x1p20, double(used_) / 0x1p20);
    reserved_ += size;
  }
  used_ += block_size;
  peak_ = std::max(peak_, used_);
  allow(block, bytes, block_size);
  lock.unlock();  // should there be no memory for the shared_ptr's counts, it gives the block back at once
  return {block, [pool = shared_from_this(), block_size](void* p) { pool->give_back(p, block_size); }};
}

void Pool::give_back(void* block, std::int64_t bytes) {
  std::lock_guard lock(mutex_);
  allow(block, 0, bytes);
  idle_[bytes].push_back(block);
  used_ -= bytes;
}

void Pool::trim() {
  std::lock_guard lock(mutex_);
  release_idle();
}

void Pool::release_idle() {
  for (auto& [bytes, blocks] : idle_)
    for (void* block : blocks) {
      allow(block, bytes, bytes);  // as it came
      release_(block);
      reserved_ -= bytes;
    }
  idle_.clear();
}

}  // namespace mxtape
