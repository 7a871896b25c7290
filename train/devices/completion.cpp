#include "train/devices/completion.h"

#include "core/error.h"

namespace mxtape {

Completion::Completion(std::span<const Bucket> layout, std::size_t parameters)
    : layout_(layout), bucket_of_(parameters) {
  for (std::size_t b = 0; b < layout_.size(); ++b)
    for (const InBucket& slot : layout_[b].slots) bucket_of_[slot.parameter] = b;
  begin();
}

void Completion::begin() {
  missing_.clear();
  for (const Bucket& bucket : layout_) missing_.push_back(bucket.slots.size());
  complete_.assign(bucket_of_.size(), false);
  next_ = 0;
}

void Completion::complete(std::size_t parameter) {
  require(!complete_[parameter], "strand: the gradient of parameter {} is complete twice", parameter);
  complete_[parameter] = true;
  --missing_[bucket_of_[parameter]];
}

std::optional<std::size_t> Completion::next() {
  if (is_at_end() || missing_[next_] > 0) return {};
  return next_++;
}

}  // namespace mxtape
