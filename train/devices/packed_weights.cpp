#include "train/devices/packed_weights.h"

#include <algorithm>
#include <utility>

#include "kernels/mx_transfer.h"

namespace mxtape {
namespace {

/// As it travels: stored, or as it is where codes would be no shorter than the numbers themselves, as those
/// of bf16 are not. Without numbers.
Rounded on_the_way(Rounded copy) {
  const Quantizer& q = copy.by.quantizer;
  const bool as_it_is = copy.layout == Layout::values && q.scale == ScaleKind::none &&
                        q.element.bits() >= 8 * size_of(q.operand_dtype());
  if (!as_it_is) copy.layout = Layout::stored;
  copy.elements = copy.scales = {};
  return copy;
}

}  // namespace

std::string obstacle_to_packing(const Rounded& copy) {
  const Quantizer& q = copy.by.quantizer;
  if (copy.by.rotation.size != 0) return "rotated before rounding";
  if (q.has_tensor_scale()) return "a scale of the whole tensor";
  if (q.scale != ScaleKind::none || q.offset != Offset::none || q.flush_subnormals) {
    const std::int32_t rows = copy.by.axis == Axis::row ? q.block.across : q.block.along;
    if (rows == 0 || strip_rows % rows != 0)
      return fmt::format("blocks that strips of {} rows cut", strip_rows);
  }
  return loss_when_stored(q, copy.layout);
}

CopiesThatTravel::CopiesThatTravel(std::vector<Parameter*> parameters, std::vector<LinearWeight> weights)
    : parameters_(std::move(parameters)), weights_(std::move(weights)) {
  for (const Parameter* p : parameters_)
    weight_of_.push_back(
        std::size_t(std::ranges::find(weights_, p, [](auto& w) { return &w.parameter; }) - weights_.begin()));
}

std::string CopiesThatTravel::reason_for_values(std::size_t i) const {
  if (weights_.empty()) return "train.gather = values";
  if (weight_of_[i] == weights_.size()) return "no linear layer's matrix";
  const LinearWeight& weight = weights_[weight_of_[i]];
  if (weight.tied) return "the embedding reads it";
  if (weight.quant.w_ste.kind != SteKind::identity) return "its straight-through gradient reads it";
  const Parameter& p = *parameters_[i];
  if (p.average) return "its moving average reads it";
  for (const Rounded* copy : {&p.copies.fprop, &p.copies.dgrad})
    if (copy->elements.raw() == p.value.raw()) return "a GEMM reads it in f32";
  const std::vector<Rounded> next = next_copies(p);
  for (const Rounded& copy : next)
    if (std::string why = obstacle_to_packing(copy); !why.empty()) return why;
  if (next.empty()) return "no copy of it is at hand";
  return bytes_on_the_way(i) < p.value.bytes() ? "" : "its copies are no smaller";
}

std::int64_t CopiesThatTravel::bytes_on_the_way(std::size_t i) const {
  std::int64_t bytes = 0;
  for (const Rounded& copy : next_copies(*parameters_[i])) bytes += bytes_of_parts(on_the_way(copy));
  return bytes;
}

WeightsOnTheirWay::WeightsOnTheirWay(Backend& backend, const Bucket& bucket, const Tensor& values,
                                     const CopiesThatTravel& which)
    : values_(values) {
  for (const InBucket& slot : bucket.slots) {
    if (!which.travels(slot.parameter)) continue;
    const Parameter& p = which.parameter(slot.parameter);
    for (const Rounded& copy : next_copies(p)) {
      Rounded sent = on_the_way(copy);
      sent = sent.layout == copy.layout ? copy : with_room(backend, std::move(sent));
      copies_.push_back({slot.parameter, p.value, copy, std::move(sent)});
    }
  }
}

void WeightsOnTheirWay::pack(Backend& backend, const Shard& mine) {
  for (const Travelling& one : copies_) {
    const auto piece = std::ranges::find(mine.pieces, one.parameter, &Piece::parameter);
    if (piece == mine.pieces.end()) continue;
    const Rounded strip = rows_of(one.sent, *piece);
    backend.run(call::Quantize{{&strip, 1}, one.value.part(piece->first, strip.shape)});
  }
}

std::vector<Tensor> WeightsOnTheirWay::parts(const Shard& shard) const {
  std::vector<Tensor> parts;
  if (copies_.empty()) {
    if (shard.count > 0) parts.push_back(values_.part(shard.first, {shard.count}));
    return parts;
  }
  std::int64_t first = 0, end = 0;  // of values in a row, in the bucket
  const auto send_values = [&] {
    if (end > first) parts.push_back(values_.part(first, {end - first}));
    first = end = 0;
  };
  for (const Piece& piece : shard.pieces) {
    bool as_copies = false;
    for (const Travelling& one : copies_) {
      if (one.parameter != piece.parameter) continue;
      if (!std::exchange(as_copies, true)) send_values();
      add_copy(parts, one, piece);
    }
    if (as_copies) continue;
    if (end == 0) first = piece.in_bucket;
    end = piece.in_bucket + piece.count;
  }
  send_values();
  return parts;
}

void WeightsOnTheirWay::add_copy(std::vector<Tensor>& parts, const Travelling& one, const Piece& piece) {
  // A multiplier without a scale of the tensor is a constant, which the copy has.
  const Rounded strip = rows_of(one.sent, piece);
  for (const Tensor* part : {&strip.elements, &strip.scales, &strip.offsets})
    if (*part) parts.push_back(*part);
}

void WeightsOnTheirWay::unpack(Backend& backend) const {
  for (const Travelling& one : copies_)
    if (one.sent.layout != one.copy.layout) backend.run(call::Recode{one.copy, one.sent});
}

}  // namespace mxtape
