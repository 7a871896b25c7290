#include "train/strands/packed_weights.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "formats/codec/block_codec.h"
#include "kernels/codec/packed_tensor.h"

namespace mxtape {
namespace {

constexpr std::int64_t strip_rows = 32;  // units.cpp
constexpr std::int64_t f32_bytes = 4;

/// True if codes would be no shorter than the numbers themselves, as those of bf16 are not.
bool travels_as_it_is(const QuantizedCopy& copy) {
  const Quantizer& q = copy.quantizer;
  return copy.form == Form::values && q.scale == ScaleKind::none &&
         q.element.bits() >= 8 * size_of(q.operand_dtype());
}

std::int64_t bytes_on_the_way(const QuantizedCopy& copy, const Shape& shape) {
  if (travels_as_it_is(copy)) return shape.count() * size_of(copy.quantizer.operand_dtype());
  const PackedLayout layout = packed_layout(copy.quantizer, shape.rows(), shape.cols(), copy.axis);
  return layout.codes + layout.scales + layout.offsets;
}

/// Of a copy as it is: its rows from `first` on.
Tensor rows_of_copy(const QuantizedCopy& copy, std::int64_t first, std::int64_t count, std::int64_t cols) {
  return copy.values.part(first * cols, {count, cols});
}

const Piece* piece_of(const Shard& shard, std::size_t parameter) {
  const auto found = std::find_if(shard.pieces.begin(), shard.pieces.end(),
                                  [&](const Piece& piece) { return piece.parameter == parameter; });
  return found == shard.pieces.end() ? nullptr : &*found;
}

}  // namespace

std::string obstacle_to_packing(const QuantizedCopy& copy) {
  const Quantizer& q = copy.quantizer;
  if (copy.rotation.size != 0) return "rotated before rounding";
  if (q.has_tensor_scale()) return "a scale of the whole tensor";
  if (q.has_group_scale()) return "outer scales, which have no packed form";
  if (q.scale != ScaleKind::none || q.offset != Offset::none || q.flush_subnormals) {
    const std::int32_t rows = copy.axis == Axis::row ? q.block.across : q.block.along;
    if (rows == 0 || strip_rows % rows != 0)
      return fmt::format("blocks that strips of {} rows cut", strip_rows);
  }
  // What is no number stays none: in its block's scale, or without one in the element.
  const bool keeps_nan = q.scale == ScaleKind::none       ? has_nan(q.element)
                         : q.scale == ScaleKind::floating ? has_nan(q.scale_format)
                                                          : true;
  if (!keeps_nan) return "no code for NaN";
  if (q.element.is_integer() && copy.form == Form::values)
    return "integers, whose codes have no negative zero";
  return "";
}

CopiesThatTravel::CopiesThatTravel(std::vector<Parameter*> parameters, std::vector<LinearWeight> weights)
    : parameters_(std::move(parameters)), weights_(std::move(weights)) {
  for (const Parameter* p : parameters_)
    weight_of_.push_back(std::size_t(std::distance(
        weights_.begin(), std::find_if(weights_.begin(), weights_.end(),
                                       [&](const LinearWeight& w) { return &w.parameter == p; }))));
}

std::string CopiesThatTravel::reason_for_values(std::size_t i) const {
  if (weights_.empty()) return "train.gather = values";
  if (weight_of_[i] == weights_.size()) return "no linear layer's matrix";
  const LinearWeight& weight = weights_[weight_of_[i]];
  if (weight.tied) return "the embedding reads it";
  if (weight.quant.w_ste.kind != SteKind::identity) return "its straight-through gradient reads it";
  const Parameter& p = *parameters_[i];
  for (const Tensor* copy : {&p.copies.fprop.values, &p.copies.dgrad.values})
    if (copy->raw() == p.value.raw()) return "a GEMM reads it in f32";
  NextCopies next(p);
  for (const QuantizedCopy& copy : next.copies())
    if (std::string why = obstacle_to_packing(copy); !why.empty()) return why;
  if (next.copies().empty()) return "no copy of it is at hand";
  return bytes_on_the_way(i) < f32_bytes * p.value.count() ? "" : "its copies are no smaller";
}

std::int64_t CopiesThatTravel::bytes_on_the_way(std::size_t i) const {
  std::int64_t bytes = 0;
  NextCopies next(*parameters_[i]);
  for (const QuantizedCopy& copy : next.copies())
    bytes += mxtape::bytes_on_the_way(copy, parameters_[i]->value.shape());
  return bytes;
}

WeightsOnTheirWay::WeightsOnTheirWay(Backend& backend, const Bucket& bucket, const Tensor& values,
                                     const CopiesThatTravel& which)
    : values_(values) {
  for (const Slot& slot : bucket.slots) {
    if (!which.travels(slot.parameter)) continue;
    const Parameter& p = which.parameter(slot.parameter);
    NextCopies next(p);
    for (const QuantizedCopy& copy : next.copies()) {
      const std::int64_t rows = p.value.rows(), cols = p.value.cols();
      Travelling& one = copies_.emplace_back(
          Travelling{slot.parameter, p.value.reshaped({rows, cols}), copy, next.draws()});
      if (!travels_as_it_is(copy)) one.packed = empty_packed(backend, copy.quantizer, copy.axis, rows, cols);
    }
  }
}

void WeightsOnTheirWay::pack(Backend& backend, const Shard& mine) {
  for (const Travelling& one : copies_) {
    const Piece* const piece = piece_of(mine, one.parameter);
    if (!piece) continue;
    const std::int64_t cols = one.value.cols(), first = piece->first / cols, rows = piece->count / cols;
    const Tensor x = one.value.part(piece->first, {rows, cols});
    DrawKey draws = one.draws;
    draws.first_element += std::uint64_t(piece->first);
    if (one.packed.codes) {
      backend.run(call::Pack{rows_of(one.packed, first, rows), x, draws});
      continue;
    }
    QuantizedCopy strip = one.copy;
    strip.values = rows_of_copy(one.copy, first, rows, cols);
    backend.run(call::Quantize{{&strip, 1}, x, draws});
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
  const std::int64_t cols = one.value.cols(), first = piece.first / cols, rows = piece.count / cols;
  if (!one.packed.codes) return parts.push_back(rows_of_copy(one.copy, first, rows, cols));
  // A multiplier without a scale of the tensor is a constant, which the copy has.
  const PackedTensor strip = rows_of(one.packed, first, rows);
  for (const Tensor* part : {&strip.codes, &strip.scales, &strip.offsets})
    if (*part) parts.push_back(*part);
}

void WeightsOnTheirWay::unpack(Backend& backend) const {
  for (const Travelling& one : copies_) {
    const QuantizedCopy& copy = one.copy;
    if (one.packed.codes) backend.run(call::Unpack{copy.values, one.packed, copy.scales, copy.layout});
  }
}

}  // namespace mxtape
