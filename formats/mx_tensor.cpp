#include "formats/mx_tensor.h"

#include <cmath>
#include <cstring>

#include "core/error.h"
#include "formats/codec.h"
#include "formats/quantize_blocks.h"

namespace mxtape {
namespace {

std::size_t scale_bytes(const Quantizer& q) {
  return q.scale == ScaleKind::none ? 0 : q.scale == ScaleKind::f32 ? sizeof(float) : 1;
}

struct CodeSink {
  MxTensor& t;
  std::vector<std::uint32_t> codes;

  void block(const BlockRange&, const BlockScale& s) {
    const Quantizer& q = t.quantizer;
    if (q.scale == ScaleKind::power_of_two) t.scales.push_back(encode_exponent(s.scale, q.scale_bits));
    if (q.scale == ScaleKind::floating) {
      require(!std::isnan(s.scale) || has_nan(q.scale_format), ExitCode::data,
              "pack: a block is not finite and its {} scale has no NaN", q.scale_format.name());
      t.scales.push_back(std::uint8_t(encode(q.scale_format, s.scale)));
    }
    if (q.scale == ScaleKind::f32) {
      std::uint8_t bytes[sizeof(float)];
      std::memcpy(bytes, &s.scale, sizeof bytes);
      t.scales.insert(t.scales.end(), bytes, bytes + sizeof bytes);
    }
    if (q.asymmetric) t.offsets.push_back(std::uint16_t(encode(f16, s.offset)));
  }
  void element(std::int64_t i, float rounded, const BlockScale& s) {
    const ElementFormat& f = t.quantizer.element;
    if (std::isnan(s.scale)) return;
    require(!std::isnan(rounded) || has_nan(f), ExitCode::data,
            "pack: element {} is NaN, which {} cannot hold", i, f.name());
    codes[std::size_t(i)] = encode(f, rounded);
  }
};

template <class Draw>
MxTensor pack_blocks(const float* x, std::int64_t rows, std::int64_t cols, Axis axis, const Quantizer& q,
                     const Draw& draw) {
  MxTensor t{q, axis, rows, cols, {}, {}, {}, 1};
  CodeSink sink{t, std::vector<std::uint32_t>(std::size_t(rows * cols))};
  t.multiplier = quantize_blocks(x, rows, cols, axis, q, draw, sink);
  t.codes = pack_bits(sink.codes, q.element.bits());
  return t;
}

float scale_at(const MxTensor& t, std::size_t block) {
  const Quantizer& q = t.quantizer;
  switch (q.scale) {
    case ScaleKind::none:
      return 1;
    case ScaleKind::power_of_two:
      return decode_exponent(t.scales[block], q.scale_bits);
    case ScaleKind::floating:
      return decode(q.scale_format, t.scales[block]);
    case ScaleKind::f32:
      break;
  }
  float scale = 0;
  std::memcpy(&scale, t.scales.data() + block * sizeof scale, sizeof scale);
  return scale;
}

}  // namespace

std::int64_t MxTensor::blocks() const {
  if (quantizer.scale == ScaleKind::none) return 0;
  const BlockExtent e = block_extent(quantizer.block, rows, cols, axis);
  return ((rows + e.rows - 1) / e.rows) * ((cols + e.cols - 1) / e.cols);
}

std::int64_t MxTensor::bytes() const {
  return std::int64_t(codes.size() + scales.size() + sizeof(std::uint16_t) * offsets.size() +
                      (quantizer.has_multiplier() ? sizeof multiplier : 0));
}

MxTensor pack(const float* x, std::int64_t rows, std::int64_t cols, Axis axis, const Quantizer& q,
              const DrawKey& key) {
  return pack_blocks(x, rows, cols, axis, q,
                     [&](std::int64_t i) { return draw_bits(key, std::uint64_t(i), q.sr_bits); });
}

MxTensor pack_with_draws(const float* x, std::int64_t rows, std::int64_t cols, Axis axis, const Quantizer& q,
                         std::span<const std::uint32_t> draws) {
  require(std::int64_t(draws.size()) == rows * cols, "pack_with_draws: {} draws for a [{}, {}] tensor",
          draws.size(), rows, cols);
  return pack_blocks(x, rows, cols, axis, q, [&](std::int64_t i) { return draws[std::size_t(i)]; });
}

void unpack(float* y, const MxTensor& t) {
  const Quantizer& q = t.quantizer;
  const auto want = std::size_t(t.blocks()) * scale_bytes(q);
  require(t.scales.size() == want, ExitCode::data, "packed tensor: {} bytes of scales, want {}",
          t.scales.size(), want);
  require(t.offsets.size() == (q.asymmetric ? std::size_t(t.blocks()) : 0), ExitCode::data,
          "packed tensor: {} offsets for {} blocks", t.offsets.size(), t.blocks());
  const auto codes = unpack_bits(t.codes, q.element.bits(), t.rows * t.cols);
  const BlockShape shape = q.scale == ScaleKind::none ? BlockShape{0, 0} : q.block;
  std::size_t block = 0;
  for_each_block(t.rows, t.cols, block_extent(shape, t.rows, t.cols, t.axis), [&](const BlockRange& range) {
    const float scale = scale_at(t, block);
    const float offset = q.asymmetric ? decode(f16, t.offsets[block]) : 0;
    for_each_element(range, t.cols, [&](std::int64_t i) {
      y[i] = decode(q.element, codes[std::size_t(i)]) * scale;
      if (offset != 0) y[i] += offset;
    });
    ++block;
  });
}

}  // namespace mxtape
