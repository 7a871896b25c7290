#include "formats/codec/mx_tensor.h"

#include <tuple>

#include "core/error.h"
#include "formats/codec/block_codec.h"
#include "formats/decide_by_average.h"

namespace mxtape {
namespace {

struct CodeSink {
  MxTensor& t;
  const float* x;
  std::vector<std::uint32_t> codes;
  std::int64_t first_uncoded = -1;
  std::int64_t block_index = 0;

  void block(const BlockRange&, const BlockScale& s) {
    store_scale(t.scales.data(), block_index++, t.quantizer, s);
    if (t.quantizer.offset != Offset::none) t.offsets.push_back(encode_offset(t.quantizer, s));
  }
  void element(std::int64_t i, float rounded, const BlockScale& s) {
    if (lacks_a_code(t.quantizer, s.scale, rounded) && (first_uncoded < 0 || i < first_uncoded))
      first_uncoded = i;
    codes[std::size_t(i)] = code_of(t.quantizer, s, rounded, x[i]);
  }
};

template <class Draw>
MxTensor pack_blocks(const float* x, std::int64_t rows, std::int64_t cols, Axis axis, const Quantizer& q,
                     const Draw& draw, std::int64_t& first_uncoded) {
  require_packable(q);
  MxTensor t{q, axis, rows, cols, {}, {}, {}, 1};
  t.scales.resize(std::size_t(packed_layout(q, rows, cols, axis).scales));
  CodeSink sink{t, x, std::vector<std::uint32_t>(std::size_t(rows * cols))};
  t.multiplier = quantize_blocks(x, rows, cols, axis, q, draw, sink);
  t.codes = pack_bits(sink.codes, q.element.bits());
  first_uncoded = sink.first_uncoded;
  return t;
}

}  // namespace

std::int64_t MxTensor::bytes() const {
  return std::int64_t(codes.size() + scales.size() + sizeof(std::uint16_t) * offsets.size() +
                      (quantizer.has_multiplier() ? sizeof multiplier : 0));
}

void MxTensor::check() const {
  const PackedLayout want = packed_layout(quantizer, rows, cols, axis);
  require(std::int64_t(codes.size()) == want.codes, ExitCode::data,
          "packed tensor: {} bytes of codes, want {} for {} of {} bits", codes.size(), want.codes,
          rows * cols, quantizer.element.bits());
  require(std::int64_t(scales.size()) == want.scales, ExitCode::data,
          "packed tensor: {} bytes of scales, want {}", scales.size(), want.scales);
  require(std::int64_t(offsets.size()) * 2 == want.offsets, ExitCode::data,
          "packed tensor: {} offsets for {} blocks", offsets.size(), want.blocks);
}

bool MxTensor::is_coded_as(const Quantizer& format) const {
  const auto meaning = [](const Quantizer& q) {
    return std::tuple(q.element, q.scale, q.scale_bits, q.scale_format, q.block.along, q.offset);
  };
  return meaning(quantizer) == meaning(format) && axis == Axis::row && cols % format.block.along == 0 &&
         (multiplier == 1 || format.has_multiplier());
}

MxTensor MxTensor::slice(std::int64_t first_row, std::int64_t count) const {
  const std::int64_t across = block_extent(quantizer.block, rows, cols, axis).rows;
  const std::int64_t of_codes = cols * quantizer.element.bits() / 8;
  const std::int64_t of_scales = std::ssize(scales) / ((rows + across - 1) / across);
  MxTensor some{quantizer, axis, count, cols, {}, {}, {}, multiplier};
  some.quantizer.block.across = 1;
  some.codes.assign(codes.begin() + first_row * of_codes, codes.begin() + (first_row + count) * of_codes);
  for (std::int64_t row = first_row; row < first_row + count; ++row) {
    const auto from = scales.begin() + row / across * of_scales;
    some.scales.insert(some.scales.end(), from, from + of_scales);
  }
  return some;
}

void require_packable(const Quantizer& q) {
  require(!q.has_group_scale(), ExitCode::usage,
          "pack: '{}' has no packed form: a file has one outer scale per tensor; want outer=tensor or none",
          to_text(q));
}

void require_codes(std::int64_t first_uncoded, const Quantizer& q) {
  require(first_uncoded < 0, ExitCode::data,
          "pack: element {} is NaN, or its block is not finite, and '{}' has no code for that; want finite "
          "numbers, or a format with NaN",
          first_uncoded, to_text(q));
}

MxTensor pack(const float* x, std::int64_t rows, std::int64_t cols, Axis axis, const Quantizer& q,
              const DrawKey& key, std::int64_t& first_uncoded) {
  const auto draw = [&](std::int64_t i) { return decision(q, key, i, x); };
  return pack_blocks(x, rows, cols, axis, q, draw, first_uncoded);
}

MxTensor pack(const float* x, std::int64_t rows, std::int64_t cols, Axis axis, const Quantizer& q,
              const DrawKey& key) {
  std::int64_t first_uncoded = -1;
  MxTensor t = pack(x, rows, cols, axis, q, key, first_uncoded);
  require_codes(first_uncoded, q);
  return t;
}

MxTensor pack_with_draws(const float* x, std::int64_t rows, std::int64_t cols, Axis axis, const Quantizer& q,
                         std::span<const std::uint32_t> draws) {
  require(std::int64_t(draws.size()) == rows * cols, "pack_with_draws: {} draws for a [{}, {}] tensor",
          draws.size(), rows, cols);
  std::int64_t first_uncoded = -1;
  MxTensor t = pack_blocks(
      x, rows, cols, axis, q, [&](std::int64_t i) { return draws[std::size_t(i)]; }, first_uncoded);
  require_codes(first_uncoded, q);
  return t;
}

void unpack(float* y, const MxTensor& t) {
  t.check();
  const Quantizer& q = t.quantizer;
  const auto codes = unpack_bits(t.codes, q.element.bits(), t.rows * t.cols);
  const BlockShape shape = q.scale == ScaleKind::none ? BlockShape{0, 0} : q.block;
  std::int64_t block = 0;
  for_each_block(t.rows, t.cols, block_extent(shape, t.rows, t.cols, t.axis), [&](const BlockRange& range) {
    BlockScale s = load_scale(t.scales.data(), block, q);
    if (q.offset != Offset::none) decode_offset(s, q, t.offsets[std::size_t(block)]);
    for_each_element(range, t.cols,
                     [&](std::int64_t i) { y[i] = value_of_code(q, s, codes[std::size_t(i)]); });
    ++block;
  });
}

}  // namespace mxtape
