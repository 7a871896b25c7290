#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "core/tensor.h"

namespace mxtape {

struct Rounded;

/// How a model's parameters are cut, so that devices can share the work on their gradients. A unit is what
/// one device sums the squares of and updates: a strip of 32 k rows of a matrix, k the smallest with 2^14
/// elements or more, or a whole vector. Units depend on shapes alone, so that what is computed by unit, and
/// added in the order of units, has the same bits on any number of devices.
std::int64_t elements_of_a_unit(const Shape&);

/// A parameter in its bucket.
struct InBucket {
  std::size_t parameter;
  std::int64_t first;  ///< its first element, in the bucket
  std::int64_t count;
  std::int64_t unit;        ///< elements of its units; the last one may have fewer
  std::int64_t first_unit;  ///< in the order of the parameters
  std::int64_t units() const { return (count + unit - 1) / unit; }
};

/// Parameters whose gradients lie side by side, at multiples of 256 bytes, and travel together.
struct Bucket {
  std::vector<InBucket> slots;
  std::int64_t count = 0;  ///< elements, those between parameters too
};

/// Buckets of `elements` or more, but for the last one, in the order in which backward completes gradients:
/// the last parameter first. One layout for every number of devices.
std::vector<Bucket> make_buckets(std::span<const Shape> parameters,
                                 std::int64_t elements = std::int64_t{1} << 22);
/// Units of all parameters.
std::int64_t count_units(std::span<const Bucket>);

/// Consecutive units of a parameter.
struct Piece {
  std::size_t parameter;
  std::int64_t first, count;  ///< elements, of the parameter
  std::int64_t in_bucket;     ///< where they begin there
  std::int64_t unit;          ///< elements of a unit
  std::int64_t first_unit, units;
};
/// The rows of the whole matrix that a piece has.
Rounded rows_of(const Rounded& whole, const Piece&);

/// A device's part of a bucket: whole units in a row, and what lies between them.
struct Shard {
  std::int64_t first = 0, count = 0;  ///< elements of the bucket
  std::vector<Piece> pieces;
};

/// The bucket in `devices` shards, cut between units where it is nearest to equal parts.
std::vector<Shard> cut(const Bucket&, int devices);

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
