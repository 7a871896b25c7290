#include "kernels/cpu/stored.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <type_traits>

#include "core/parallel.h"
#include "formats/codec/block_codec.h"
#include "formats/integer_grid.h"
#include "kernels/cpu/loops/decode_loops.h"
#include "kernels/gemm_codes.h"

// A packed model (train/saved/packed_model.h) unpacks every weight anew in every pass: so no copy of the
// codes, and all threads.
namespace mxtape::cpu {
namespace {

constexpr int widest_listed = 8;  ///< bits of a code or scale; wider codes are decoded one by one

template <class Word>
std::uint64_t load(const std::uint8_t* from) {
  Word word;
  std::memcpy(&word, from, sizeof word);
  return word;
}

/// use(i, code) for the codes from number `first` on, eight at a time where there are formats of their width.
template <class Use>
void for_codes(const std::uint8_t* codes, int bits, std::int64_t first, std::int64_t count, const Use& use) {
  const std::uint8_t* const from = codes + first * bits / 8;
  const int inside = int(first * bits % 8);
  std::int64_t i = 0;
  const auto eights = [&](auto width) {
    if (bits != width || inside != 0) return;
    for (; i + 8 <= count; i += 8) {
      const std::uint8_t* const at = from + i / 8 * width;
      std::uint64_t word = load<std::uint32_t>(at);
      if constexpr (width == 6) word |= load<std::uint16_t>(at + 4) << 32;
      if constexpr (width == 8) word = load<std::uint64_t>(at);
#pragma GCC unroll 8
      for (int k = 0; k < 8; ++k) use(i + k, std::uint32_t(word >> (k * width)) & low_bits(width));
    }
  };
  eights(std::integral_constant<int, 4>{});
  eights(std::integral_constant<int, 6>{});
  eights(std::integral_constant<int, 8>{});
  if (i == count) return;
  CodeReader reader{from + i * bits / 8, bits};
  if (inside != 0) reader = {from + 1, bits, std::uint64_t(*from >> inside), 8 - inside};
  for (; i < count; ++i) use(i, reader.take());
}

class Unpacker {
 public:
  explicit Unpacker(const Rounded& x)
      : x_(x),
        q_(x.by.quantizer),
        extent_(block_extent(q_.scale == ScaleKind::none ? BlockShape{0, 0} : q_.block, x.rows(), x.cols(),
                             x.by.axis)),
        across_((x.cols() + extent_.cols - 1) / extent_.cols) {
    if (q_.element.bits() <= widest_listed)
      for (std::uint32_t code = 0; code < 1u << q_.element.bits(); ++code)
        values_[code] = decode(q_.element, code);
    if (scale_bytes(q_) == 1)
      for (unsigned code = 0; code < scales_.size(); ++code) {
        const auto byte = std::uint8_t(code);
        scales_[code] = load_scale(&byte, 0, q_);
      }
  }

  /// Row `row` of y, looked up part by part in the first cache.
  template <class Y>
  void unpack_row(Y* y, std::int64_t row, const DecodeLoopsTo<Y>& loops) const {
    constexpr std::int64_t most = 256;
    const std::int64_t cols = x_.cols();
    const int bits = q_.element.bits();
    float values[most];
    for (std::int64_t first = 0; first < cols; first += most, y += most) {
      const std::int64_t count = std::min(most, cols - first);
      for_codes(x_.elements.data<std::uint8_t>(), bits, row * cols + first, count,
                [&](std::int64_t i, std::uint32_t code) {
                  values[i] = bits <= widest_listed ? values_[code] : decode(q_.element, code);
                });
      if (extent_.cols == 1 && scale_bytes(q_) == 1 && q_.offset == Offset::none) {
        const std::uint8_t* const scales =
            x_.scales.data<std::uint8_t>() + row / extent_.rows * across_ + first;
        for (std::int64_t i = 0; i < count; ++i) values[i] *= scales_[scales[i]].scale;
      } else {
        multiply(values, count, row, first);
      }
      loops.from_f32(y, values, count, 1.0f);
    }
  }

 private:
  /// Elements of a row from column `first` on, block after block.
  void multiply(float* values, std::int64_t count, std::int64_t row, std::int64_t first) const {
    for (std::int64_t i = 0; i < count;) {
      const std::int64_t end =
          std::min((first + i) / extent_.cols * extent_.cols + extent_.cols - first, count);
      const BlockScale s = scale_at(row, first + i);
      if (s.lift == 1 && s.offset == 0 && s.zero == 0)
        for (; i < end; ++i) values[i] *= s.scale;
      else
        for (; i < end; ++i) values[i] = value_of_coded(s, values[i]);
    }
  }

  BlockScale scale_at(std::int64_t row, std::int64_t col) const {
    const std::int64_t block = row / extent_.rows * across_ + col / extent_.cols;
    const auto *const scales = x_.scales.data<std::uint8_t>(), *const offsets =
                                                                   x_.offsets.data<std::uint8_t>();
    BlockScale s = scale_bytes(q_) == 1 ? scales_[scales[block]] : load_scale(scales, block, q_);
    if (offsets) decode_offset(s, q_, std::uint16_t(offsets[2 * block] | offsets[2 * block + 1] << 8));
    return s;
  }

  const Rounded& x_;
  const Quantizer& q_;
  BlockExtent extent_;
  std::int64_t across_;  ///< blocks side by side
  std::array<float, 1 << widest_listed> values_{};
  std::array<BlockScale, 1 << widest_listed> scales_{};
};

/// What each code of an element stands for, in units.
std::array<std::int8_t, 1 << widest_listed> integers_of(const ElementFormat& element) {
  const float unit = power_of_two(integer_grid(element)->unit_exponent);
  std::array<std::int8_t, 1 << widest_listed> integers{};
  for (std::uint32_t code = 0; code < 1u << element.bits(); ++code) {
    const float steps = decode(element, code) / unit;
    // A code for a NaN, or -128 of int8, which no rounding gives.
    const bool one = steps >= -float(largest_code) && steps <= float(largest_code);
    integers[code] = one ? std::int8_t(steps) : std::int8_t{0};
  }
  return integers;
}

void unpack_codes(const Rounded& y, const Rounded& x) {
  const Quantizer& q = x.by.quantizer;
  const CodeLayout at = code_layout(y);
  const bool rows = x.by.axis == Axis::row;  // are lines
  const std::int64_t cols = x.cols();
  auto* const codes = static_cast<std::int8_t*>(y.elements.raw());
  float* const scales = y.scales.data();
  if (at.padded_depth() != at.depth || at.lines % CodeLayout::panel != 0) {
    std::fill_n(codes, y.elements.count(), std::int8_t{0});
    std::fill_n(scales, y.scales.count(), 0.0f);
  }
  const auto integers = integers_of(q.element);
  const float unit = power_of_two(integer_grid(q.element)->unit_exponent);
  const BlockExtent extent = block_extent(q.block, x.rows(), cols, x.by.axis);
  const std::int64_t across = (cols + extent.cols - 1) / extent.cols;
  const int bits = q.element.bits();
  const auto* const packed = x.elements.data<std::uint8_t>();
  constexpr std::uint64_t quad = CodeLayout::quad, panel = CodeLayout::panel, group = quad * panel;
  const auto panel_codes = std::uint64_t(at.padded_depth()) * panel;
  // Rows of whole panels, or of whole quads: no two threads write to the same group.
  constexpr std::int64_t grain = 2 * CodeLayout::panel;
  parallel_for(x.rows(), grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = begin; r < end; ++r) {
      std::int8_t* const first = codes + (rows ? at.code_at(r, 0) : at.code_at(0, r));
      for_codes(packed, bits, r * cols, cols, [&](std::int64_t i, std::uint32_t code) {
        const auto c = std::uint64_t(i);
        first[rows ? c / quad * group + c % quad : c / panel * panel_codes + c % panel * quad] =
            integers[code];
      });
      if (!rows && r % at.along != 0) continue;  // the block's first row has written its scales
      for (std::int64_t c = 0; c < cols; c += rows ? at.along : 1) {
        const std::int64_t block = r / extent.rows * across + c / extent.cols;
        const float scale = load_scale(x.scales.data<std::uint8_t>(), block, q).scale * unit;
        scales[rows ? at.scale_at(r, c / at.along) : at.scale_at(c, r / at.along)] = scale;
      }
    }
  });
}

}  // namespace

void unpack(const Rounded& y, const Rounded& x) {
  if (y.layout == Layout::codes) return unpack_codes(y, x);
  const Unpacker unpacker(x);
  const std::int64_t cols = x.cols();
  constexpr std::int64_t work = 1 << 14;  // elements that pay for handing out a range
  const auto unpack_to = [&](auto* to, const auto& loops) {
    parallel_for(x.rows(), std::max<std::int64_t>(work / std::max<std::int64_t>(cols, 1), 1),
                 [&](std::int64_t begin, std::int64_t end) {
                   for (std::int64_t row = begin; row < end; ++row)
                     unpacker.unpack_row(to + row * cols, row, loops);
                 });
  };
  if (y.elements.dtype() == DType::bf16)
    return unpack_to(static_cast<std::uint16_t*>(y.elements.raw()), decode_loops().to_bf16);
  unpack_to(y.elements.data(), decode_loops().to_f32);
}

}  // namespace mxtape::cpu
