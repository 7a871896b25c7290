#pragma once
#include <optional>
#include <span>
#include <vector>

#include "train/devices/units.h"

namespace mxtape {

/// In which order the buckets of a strand's gradients may be sent while backward goes on: that of the layout,
/// which follows from the parameters' shapes, and so is the same on all devices, those without a strand too.
/// A bucket that is complete before one that comes before it in the layout waits for that.
class Completion {
 public:
  /// `layout` must live as long as this.
  Completion(std::span<const Bucket> layout, std::size_t parameters);

  /// A strand begins: nothing is complete.
  void begin();
  /// The strand's gradient of a parameter is.
  void complete(std::size_t parameter);
  /// The next bucket, if it and all before it are complete.
  std::optional<std::size_t> next();
  bool is_at_end() const { return next_ == layout_.size(); }

 private:
  std::span<const Bucket> layout_;
  std::vector<std::size_t> bucket_of_;  // by parameter
  std::vector<std::size_t> missing_;    // parameters, by bucket
  std::vector<bool> complete_;          // by parameter
  std::size_t next_ = 0;
};

}  // namespace mxtape
