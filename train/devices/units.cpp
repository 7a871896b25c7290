#include "train/devices/units.h"

#include <algorithm>

#include "core/error.h"
#include "kernels/mx_transfer.h"

namespace mxtape {
namespace {

constexpr std::int64_t least_of_a_unit = std::int64_t{1} << 14;
constexpr std::int64_t alignment = 256 / sizeof(float);

/// Where a bucket can be cut: at the first element of each unit, and at its end.
std::vector<std::int64_t> cuts_of(const Bucket& bucket) {
  std::vector<std::int64_t> cuts;
  for (const InBucket& slot : bucket.slots)
    for (std::int64_t i = 0; i < slot.units(); ++i) cuts.push_back(slot.first + i * slot.unit);
  cuts.push_back(bucket.count);
  return cuts;
}

Shard between(const Bucket& bucket, std::int64_t begin, std::int64_t end) {
  Shard shard{begin, end - begin, {}};
  for (const InBucket& slot : bucket.slots) {
    const std::int64_t first = std::clamp<std::int64_t>(begin - slot.first, 0, slot.count);
    const std::int64_t last = std::clamp<std::int64_t>(end - slot.first, 0, slot.count);
    if (first == last) continue;
    shard.pieces.push_back({.parameter = slot.parameter,
                            .first = first,
                            .count = last - first,
                            .in_bucket = slot.first + first,
                            .unit = slot.unit,
                            .first_unit = slot.first_unit + first / slot.unit,
                            .units = (last - first + slot.unit - 1) / slot.unit});
  }
  return shard;
}

}  // namespace

std::int64_t elements_of_a_unit(const Shape& shape) {
  if (shape.rank < 2) return std::max<std::int64_t>(shape.count(), 1);
  const std::int64_t strip = strip_rows * shape.cols();
  return strip * ((least_of_a_unit + strip - 1) / strip);
}

std::vector<Bucket> make_buckets(std::span<const Shape> parameters, std::int64_t elements) {
  std::vector<std::int64_t> first_units;
  std::int64_t units = 0;
  for (const Shape& shape : parameters) {
    const std::int64_t unit = elements_of_a_unit(shape);
    first_units.push_back(units);
    units += (shape.count() + unit - 1) / unit;
  }
  std::vector<Bucket> buckets;
  for (std::size_t i = parameters.size(); i-- > 0;) {
    if (buckets.empty() || buckets.back().count >= elements) buckets.emplace_back();
    Bucket& bucket = buckets.back();
    const std::int64_t count = parameters[i].count();
    bucket.slots.push_back({i, bucket.count, count, elements_of_a_unit(parameters[i]), first_units[i]});
    bucket.count += (count + alignment - 1) / alignment * alignment;
  }
  return buckets;
}

std::int64_t count_units(std::span<const Bucket> buckets) {
  std::int64_t units = 0;
  for (const Bucket& bucket : buckets)
    for (const InBucket& slot : bucket.slots) units += slot.units();
  return units;
}

std::vector<Shard> cut(const Bucket& bucket, int devices) {
  const std::vector<std::int64_t> cuts = cuts_of(bucket);
  std::vector<Shard> shards;
  std::int64_t begin = 0;
  for (int device = 1; device <= devices; ++device) {
    const std::int64_t ideal = bucket.count * device / devices;
    auto end = std::lower_bound(cuts.begin(), cuts.end(), ideal);
    if (end != cuts.begin() && ideal - *std::prev(end) < *end - ideal) --end;
    shards.push_back(between(bucket, begin, *end));
    begin = *end;
  }
  return shards;
}

Rounded rows_of(const Rounded& whole, const Piece& piece) {
  return whole.rows(piece.first / whole.cols(), piece.count / whole.cols());
}

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
