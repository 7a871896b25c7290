#include "train/devices/packed_gradients.h"

#include <algorithm>

#include "autograd/parameter.h"

namespace mxtape {
namespace {

// Tensor ids of layers count up from 0 (nn/layers.h).
constexpr std::uint32_t first_tensor_id = 1u << 31;

/// A gradient, or consecutive rows of one; values where it has no format. Without numbers.
Rounded as_it_travels(const Shape& shape, const Quantizer& q) {
  Rounded r = wanted(q, Axis::row, shape, q.is_identity() ? Layout::values : Layout::stored);
  r.site.slot = Slot::sum_dw;
  return r;
}

/// "blocks.0.mlp.up" of its weight; both tables of positions and tokens are the embedding's.
std::string layer_of(const std::string& parameter, const PrecisionPlan& plan) {
  const std::string layer = parameter.substr(0, parameter.rfind('.'));
  return plan.sums.contains(layer) ? layer : layer == "tokens" || layer == "positions" ? "embedding" : "";
}

}  // namespace

std::vector<Quantizer> sum_formats(std::span<Parameter* const> parameters, const PrecisionPlan& plan) {
  std::vector<Quantizer> formats;
  for (const Parameter* p : parameters) {
    const auto found = plan.sums.find(layer_of(p->name, plan));
    const bool matrix = p->value.shape().rank >= 2 && found != plan.sums.end();
    formats.push_back(matrix ? found->second : Quantizer{});
  }
  return formats;
}

std::int64_t bytes_of_gradient(const Shape& shape, const Quantizer& q) {
  return bytes_of_parts(as_it_travels(shape, q)) + (q.has_multiplier() ? std::int64_t(sizeof(float)) : 0);
}

Rounded PackedGradients::wanted_of(std::size_t parameter) const {
  return as_it_travels(shapes_[parameter], formats_[parameter]);
}

bool PackedGradients::concerns(const Bucket& bucket) const {
  return std::ranges::any_of(bucket.slots, [&](const InBucket& slot) { return is_packed(slot.parameter); });
}

void PackedGradients::make_room(Backend& backend, const Bucket& bucket) {
  for (const InBucket& slot : bucket.slots) {
    Rounded& r = pieces_.emplace_back(Piece{slot.parameter, wanted_of(slot.parameter)}).gradient;
    if (is_packed(slot.parameter)) r = with_room(backend, r);
  }
}

void PackedGradients::pack(Backend& backend, const Bucket& bucket, const Tensor& gradients,
                           const DrawKey& strand) {
  if (pieces_.empty()) make_room(backend, bucket);
  for (std::size_t i = 0; i < pieces_.size(); ++i) {
    const InBucket& slot = bucket.slots[i];
    const Tensor gradient = gradients.part(slot.first, shapes_[slot.parameter]);
    Rounded& to = pieces_[i].gradient;
    if (!is_packed(slot.parameter)) {
      to.elements = gradient;
      continue;
    }
    to.by.draws = strand;
    to.by.draws.tensor_id = first_tensor_id + std::uint32_t(slot.parameter);
    backend.run(call::Quantize{{&to, 1}, gradient});
  }
}

void PackedGradients::make_room(Backend& backend, const Shard& shard) {
  for (const mxtape::Piece& of : shard.pieces)
    pieces_.push_back({of.parameter, with_room(backend, rows_of(wanted_of(of.parameter), of))});
}

PackedGradients PackedGradients::part(const Shard& shard) const {
  PackedGradients part(shapes_, formats_);
  for (const mxtape::Piece& of : shard.pieces) {
    const auto whole = std::ranges::find(pieces_, of.parameter, &Piece::parameter);
    require(whole != pieces_.end(), "packed gradients: parameter {} is not in this bucket", of.parameter);
    part.pieces_.push_back({of.parameter, rows_of(whole->gradient, of)});
  }
  return part;
}

void PackedGradients::add_parts(std::vector<Part>& parts, int rank) const {
  for (const auto& [parameter, r] : pieces_)
    for (const Tensor* data : {&r.elements, &r.scales, &r.offsets, &r.multiplier})
      if (*data) parts.push_back({rank, *data});
}

void PackedGradients::unpack(Backend& backend, const Shard& shard, const Tensor& gradients) const {
  for (std::size_t i = 0; i < pieces_.size(); ++i) {
    const Rounded& from = pieces_[i].gradient;
    const mxtape::Piece& of = shard.pieces[i];
    const Tensor flat = gradients.part(of.in_bucket - shard.first, from.shape);
    if (from.layout == Layout::stored)
      backend.run(call::Recode{unrounded(flat), from});
    else if (from.elements.raw() != flat.raw())
      backend.copy(flat, from.elements);
  }
}

}  // namespace mxtape
