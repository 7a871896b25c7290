#include "data/loader.h"

#include "core/error.h"

namespace mxtape {
namespace {

/// Appends `time` inputs from `start` and the tokens one later as targets.
void append_window(Batch& batch, const Split& split, std::int64_t start) {
  if (split.unread) return;
  const std::vector<std::int32_t> tokens = split.read(start, batch.time + 1);
  batch.inputs.insert(batch.inputs.end(), tokens.begin(), tokens.end() - 1);
  batch.targets.insert(batch.targets.end(), tokens.begin() + 1, tokens.end());
}

Batch empty_batch(const Split& split, std::int64_t rows, std::int64_t time) {
  Batch batch{{}, {}, rows, time};
  if (split.unread) return batch;
  batch.inputs.reserve(std::size_t(rows * time));
  batch.targets.reserve(std::size_t(rows * time));
  return batch;
}

void require_length(const Split& split, std::int64_t time, const char* name) {
  require(time > 0, "the {} split: windows of {} tokens, want at least 1", name, time);
  require(split.count() > time, ExitCode::data,
          "the {} split has {} tokens, a window of {} and its targets need {}; take more text or a shorter "
          "window",
          name, split.count(), time, time + 1);
}

}  // namespace

Loader::Loader(const Split& split, std::int64_t batch, std::int64_t time, std::uint64_t seed)
    : split_(&split), batch_(batch), time_(time), seed_(seed) {
  require(batch > 0, "loader: batch {}, want at least 1", batch);
  require_length(split, time, "training");
}

Batch Loader::at(std::uint32_t step) const {
  // Keyed by the row since the start, so that 3 passes of 4 rows see what 1 pass of 12 sees.
  const DrawKey key{.seed = seed_, .purpose = Purpose::data_order};
  const auto starts = std::uint64_t(split_->count() - time_);
  Batch batch = empty_batch(*split_, batch_, time_);
  for (std::int64_t row = 0; row < batch_; ++row) {
    const auto bits = key.group(std::uint64_t(step) * std::uint64_t(batch_) + std::uint64_t(row));
    const auto draw = std::uint64_t(bits[0]) << 32 | bits[1];
    // floor(draw * starts / 2^64): uniform up to starts / 2^64, below 2^-24 for 2^40 tokens.
    __extension__ using Wide = unsigned __int128;
    append_window(batch, *split_, std::int64_t(Wide(draw) * starts >> 64));
  }
  return batch;
}

Windows::Windows(const Split& split, std::int64_t time) : split_(&split), time_(time) {
  require_length(split, time, "validation");
}

std::int64_t Windows::count() const { return (split_->count() - 1) / time_; }

Batch Windows::at(std::int64_t first, std::int64_t n) const {
  require(first >= 0 && n >= 0 && first + n <= count(), "windows: [{}, {}) of {}", first, first + n, count());
  Batch batch = empty_batch(*split_, n, time_);
  for (std::int64_t i = first; i < first + n; ++i) append_window(batch, *split_, i * time_);
  return batch;
}

}  // namespace mxtape
