#include "kernels/cpu/stored.h"

#include <algorithm>
#include <array>
#include <type_traits>
#include <vector>

#include "core/parallel.h"
#include "formats/codec/block_codec.h"
#include "formats/integer_grid.h"
#include "kernels/cpu/loops/unpack_loops.h"
#include "kernels/gemm_codes.h"

// A packed model (train/saved/packed_model.h) unpacks every weight anew in every pass: so no copy of the
// codes, and all threads.
namespace mxtape::cpu {
namespace {

constexpr int widest_listed = 8;  ///< bits of a code or scale; wider codes are decoded one by one
constexpr std::int64_t vector_size = 16;

void store(float* y, float value) { *y = value; }
void store(bf16* y, float value) { *y = to_bf16(value); }

/// From bit `bit` of `codes` on.
CodeReader reader_at(const std::uint8_t* codes, std::int64_t bit, int bits) {
  const std::uint8_t* const from = codes + bit / 8;
  const int inside = int(bit % 8);
  if (inside == 0) return {from, bits};
  return {from + 1, bits, std::uint64_t(*from >> inside), 8 - inside};
}

class Unpacker {
 public:
  explicit Unpacker(const Rounded& x)
      : x_(x),
        q_(x.by.quantizer),
        bits_(q_.element.bits()),
        codes_(x.elements.data<std::uint8_t>()),
        extent_(block_extent(q_.scale == ScaleKind::none ? BlockShape{0, 0} : q_.block, x.rows(), x.cols(),
                             x.by.axis)),
        cols_(x.cols()),
        across_((cols_ + extent_.cols - 1) / extent_.cols) {
    if (bits_ <= widest_listed)
      for (std::uint32_t code = 0; code < 1u << bits_; ++code) values_[code] = decode(q_.element, code);
    if (scale_bytes(q_) == 1)
      for (unsigned code = 0; code < scales_.size(); ++code) {
        const auto byte = std::uint8_t(code);
        scales_[code] = load_scale(&byte, 0, q_).scale;
      }
  }

  /// Row `row` of y. `scales` is memory for the scales and offsets of its vectors.
  template <class Y>
  void unpack_row(Y* y, std::int64_t row, std::vector<float>& scales) const {
    if (unpack_own_scales(y, row)) return;
    const std::int64_t done = unpack_vectors(y, row, scales);
    for (std::int64_t c = done; c < cols_;) {
      const std::int64_t end = std::min((c / extent_.cols + 1) * extent_.cols, cols_);
      unpack_run(y + c, row * cols_ + c, end - c, scale_at(row, c));
      c = end;
    }
  }

 private:
  BlockScale scale_at(std::int64_t row, std::int64_t col) const {
    const std::int64_t block = row / extent_.rows * across_ + col / extent_.cols;
    const auto *const scales = x_.scales.data<std::uint8_t>(), *const offsets =
                                                                   x_.offsets.data<std::uint8_t>();
    BlockScale s =
        scale_bytes(q_) == 1 ? BlockScale{0, scales_[scales[block]]} : load_scale(scales, block, q_);
    if (offsets) decode_offset(s, q_, std::uint16_t(offsets[2 * block] | offsets[2 * block + 1] << 8));
    return s;
  }

  /// A row of blocks that run along columns: each element has another scale than its neighbours.
  template <class Y>
  bool unpack_own_scales(Y* y, std::int64_t row) const {
    const std::int64_t first_bit = row * cols_ * bits_;
    if (extent_.cols != 1 || bits_ > widest_listed || scale_bytes(q_) != 1 || q_.offset != Offset::none ||
        first_bit % 8 != 0)
      return false;
    CodeReader reader{codes_ + first_bit / 8, bits_};
    const std::uint8_t* const scales = x_.scales.data<std::uint8_t>() + row / extent_.rows * across_;
    for (std::int64_t c = 0; c < cols_; ++c)
      store(y + c, value_of_coded({0, scales_[scales[c]]}, values_[reader.take()]));
    return true;
  }

  /// As many whole vectors of a row as the loops can take, from its start on; returns their elements.
  template <class Y>
  std::int64_t unpack_vectors(Y* y, std::int64_t row, std::vector<float>& scales) const {
    const std::int64_t first_bit = row * cols_ * bits_;
    const bool one_block_each = extent_.cols % vector_size == 0 || extent_.cols >= cols_;
    const bool moves = q_.offset == Offset::zero_point, lifts = q_.scale_bits > 8;
    if (bits_ > widest_listed || first_bit % 8 != 0 || !one_block_each || moves || lifts) return 0;
    // The loops read eight bytes for the last eight codes, which fill bits_.
    const std::int64_t room = x_.elements.bytes() - first_bit / 8 - 8 + bits_;
    const std::int64_t vectors = std::min(cols_, room > 0 ? room * 8 / bits_ : 0) / vector_size;
    scales.resize(std::size_t(2 * vectors));
    for (std::int64_t v = 0; v < vectors; ++v) {
      const BlockScale s = scale_at(row, v * vector_size);
      scales[std::size_t(v)] = s.scale;
      scales[std::size_t(vectors + v)] = s.offset;
    }
    const CodedRow coded{codes_ + first_bit / 8, bits_, values_.data(), scales.data(),
                         q_.offset == Offset::midpoint ? scales.data() + vectors : nullptr};
    if constexpr (std::is_same_v<Y, bf16>)
      unpack_loops().to_bf16(&y->bits, coded, vectors * vector_size);
    else
      unpack_loops().to_f32(y, coded, vectors * vector_size);
    return vectors * vector_size;
  }

  /// y[0 .. count) = the elements from number `first` on, all of one block.
  template <class Y>
  void unpack_run(Y* y, std::int64_t first, std::int64_t count, const BlockScale& s) const {
    CodeReader reader = reader_at(codes_, first * bits_, bits_);
    for (std::int64_t i = 0; i < count; ++i) {
      const std::uint32_t code = reader.take();
      store(y + i, value_of_coded(s, bits_ <= widest_listed ? values_[code] : decode(q_.element, code)));
    }
  }

  const Rounded& x_;
  const Quantizer& q_;
  int bits_;
  const std::uint8_t* codes_;
  BlockExtent extent_;
  std::int64_t cols_;
  std::int64_t across_;  ///< blocks side by side
  std::array<float, 1 << widest_listed> values_{}, scales_{};
};

template <class Y>
void unpack_rows(Y* y, const Unpacker& unpacker, std::int64_t cols, std::int64_t begin, std::int64_t end) {
  std::vector<float> scales;
  for (std::int64_t row = begin; row < end; ++row) unpacker.unpack_row(y + row * cols, row, scales);
}

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
  constexpr std::uint64_t quad = CodeLayout::quad, panel = CodeLayout::panel, group = quad * panel;
  const auto panel_codes = std::uint64_t(at.padded_depth()) * panel;
  // Rows of whole panels, or of whole quads: no two threads write to the same group.
  constexpr std::int64_t grain = 2 * CodeLayout::panel;
  parallel_for(x.rows(), grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = begin; r < end; ++r) {
      CodeReader reader = reader_at(x.elements.data<std::uint8_t>(), r * cols * bits, bits);
      std::int8_t* const first = codes + (rows ? at.code_at(r, 0) : at.code_at(0, r));
      for (std::uint64_t c = 0; c < std::uint64_t(cols); ++c)
        first[rows ? c / quad * group + c % quad : c / panel * panel_codes + c % panel * quad] =
            integers[reader.take()];
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
  parallel_for(x.rows(), std::max<std::int64_t>(work / std::max<std::int64_t>(cols, 1), 1),
               [&](std::int64_t begin, std::int64_t end) {
                 if (y.elements.dtype() == DType::bf16)
                   unpack_rows(y.elements.data<bf16>(), unpacker, cols, begin, end);
                 else
                   unpack_rows(y.elements.data(), unpacker, cols, begin, end);
               });
}

}  // namespace mxtape::cpu
