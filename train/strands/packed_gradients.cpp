#include "train/strands/packed_gradients.h"

#include <algorithm>

#include "autograd/parameter.h"
#include "formats/codec/block_codec.h"

namespace mxtape {
namespace {

// Tensor ids of layers count up from 0 (nn/layers.h).
constexpr std::uint32_t first_tensor_id = 1u << 31;

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
  if (q.is_identity()) return shape.count() * std::int64_t(sizeof(float));
  const PackedLayout layout = packed_layout(q, shape.rows(), shape.cols(), Axis::row);
  const std::int64_t multiplier = q.has_multiplier() ? sizeof(float) : 0;
  return layout.codes + layout.scales + layout.offsets + multiplier;
}

bool PackedGradients::concerns(const Bucket& bucket) const {
  return std::any_of(bucket.slots.begin(), bucket.slots.end(),
                     [&](const Slot& slot) { return is_packed(slot.parameter); });
}

void PackedGradients::make_room(Backend& backend, const Bucket& bucket) {
  for (const Slot& slot : bucket.slots) {
    const Shape& shape = shapes_[slot.parameter];
    Piece& piece = pieces_.emplace_back(Piece{slot.parameter});
    if (is_packed(slot.parameter))
      piece.packed = empty_packed(backend, formats_[slot.parameter], Axis::row, shape.rows(), shape.cols());
  }
}

void PackedGradients::pack(Backend& backend, const Bucket& bucket, const Tensor& gradients,
                           const DrawKey& strand) {
  if (pieces_.empty()) make_room(backend, bucket);
  for (std::size_t i = 0; i < pieces_.size(); ++i) {
    const Slot& slot = bucket.slots[i];
    const Tensor gradient = gradients.part(slot.first, shapes_[slot.parameter]);
    Piece& piece = pieces_[i];
    if (!is_packed(slot.parameter)) {
      piece.plain = gradient;
      continue;
    }
    DrawKey key = strand;
    key.tensor_id = first_tensor_id + std::uint32_t(slot.parameter);
    backend.run(call::Pack{piece.packed, gradient, key});
  }
}

void PackedGradients::make_room(Backend& backend, const Shard& shard) {
  for (const mxtape::Piece& of : shard.pieces) {
    Piece& piece = pieces_.emplace_back(Piece{of.parameter});
    const std::int64_t cols = shapes_[of.parameter].cols();
    if (is_packed(of.parameter))
      piece.packed = empty_packed(backend, formats_[of.parameter], Axis::row, of.count / cols, cols);
    else
      piece.plain = backend.empty({of.count});
  }
}

PackedGradients PackedGradients::part(const Shard& shard) const {
  PackedGradients part(shapes_, formats_);
  for (const mxtape::Piece& of : shard.pieces) {
    const auto whole = std::find_if(pieces_.begin(), pieces_.end(),
                                    [&](const Piece& piece) { return piece.parameter == of.parameter; });
    require(whole != pieces_.end(), "packed gradients: parameter {} is not in this bucket", of.parameter);
    const std::int64_t cols = shapes_[of.parameter].cols();
    Piece& piece = part.pieces_.emplace_back(Piece{of.parameter});
    if (is_packed(of.parameter))
      piece.packed = rows_of(whole->packed, of.first / cols, of.count / cols);
    else
      piece.plain = whole->plain.part(of.first, {of.count});
  }
  return part;
}

void PackedGradients::add_parts(std::vector<Part>& parts, int rank) const {
  for (const Piece& piece : pieces_)
    for (const Tensor* data : {&piece.packed.codes, &piece.packed.scales, &piece.packed.offsets,
                               &piece.packed.multiplier, &piece.plain})
      if (*data) parts.push_back({rank, *data});
}

void PackedGradients::unpack(Backend& backend, const Shard& shard, const Tensor& gradients) const {
  for (std::size_t i = 0; i < pieces_.size(); ++i) {
    const Piece& piece = pieces_[i];
    const mxtape::Piece& of = shard.pieces[i];
    const Tensor flat = gradients.part(of.in_bucket - shard.first, {of.count});
    if (piece.plain) {
      if (piece.plain.raw() != flat.raw()) backend.copy(flat, piece.plain);
      continue;
    }
    const Tensor rows = flat.reshaped({piece.packed.rows, piece.packed.cols});
    backend.run(call::Unpack{rows, piece.packed});
    if (!piece.packed.multiplier) continue;
    QuantizedCopy copy{.quantizer = piece.packed.quantizer};
    copy.values = rows, copy.multiplier = piece.packed.multiplier;
    backend.run(call::Dequantize{rows, copy});
  }
}

}  // namespace mxtape
