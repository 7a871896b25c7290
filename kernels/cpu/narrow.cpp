#include "kernels/cpu/stored.h"

#include <algorithm>
#include <array>
#include <vector>

#include "core/parallel.h"
#include "kernels/cpu/loops/narrow_loops.h"
#include "kernels/narrow.h"

// Streams: one read and one write of memory for each number, and little arithmetic between.
namespace mxtape::cpu {
namespace {

constexpr std::int64_t work = 1 << 15;  // numbers that pay for handing out a range

CodeNumbers code_numbers(const ElementFormat& f) {
  return {f.bits(), f.mantissa_bits, f.is_integer() ? 0 : (1 << f.exponent_bits) - 1};
}
FloatNumbers float_numbers(const ElementFormat& f) {
  const ExponentRule fits = exponent_rule(f, ScaleRule::rceil);
  return {f.bits(), f.mantissa_bits, f.min_exponent(), f.max_finite(), fits.carry, fits.subtract};
}

/// Ranges of whole panels of codes: f(first code, codes, first scale, scales).
template <class F>
void for_panels(const Rounded& copy, const F& f) {
  const CodeLayout at = code_layout(copy);
  const std::int64_t codes = at.padded_depth() * CodeLayout::panel, scales = at.blocks() * CodeLayout::panel;
  parallel_for(at.panels(), std::max<std::int64_t>(work / std::max<std::int64_t>(codes, 1), 1),
               [&](std::int64_t begin, std::int64_t end) {
                 f(begin * codes, (end - begin) * codes, begin * scales, (end - begin) * scales);
               });
}

/// Rows of blocks of values: f(first row, rows, its number, scratch of the loops).
template <class F>
void for_blocks(const Rounded& copy, const F& f) {
  const std::int64_t rows = copy.rows(), cols = copy.cols(),
                     of_block = packed_rows(copy.by.quantizer, copy.by.axis);
  constexpr std::int64_t chunk = NarrowLoops::chunk;
  parallel_for((rows + of_block - 1) / of_block,
               std::max<std::int64_t>(work / std::max<std::int64_t>(of_block * cols, 1), 1),
               [&](std::int64_t begin, std::int64_t end) {
                 std::vector<float> scratch(std::size_t((cols + chunk - 1) / chunk * chunk));
                 for (std::int64_t b = begin; b < end; ++b)
                   f(b * of_block, std::min(of_block, rows - b * of_block), b, scratch.data());
               });
}

void pack_scales(std::uint8_t* y, const float* scales, std::int64_t count, const Quantizer& q) {
  const NarrowLoops& loops = narrow_loops();
  const float per_unit = 1 / unit_of(q);
  if (q.scale == ScaleKind::power_of_two) return loops.pack_exponents(y, scales, count, per_unit);
  loops.pack_floats(y, scales, count, per_unit, float_numbers(q.scale_format),
                    encode(q.scale_format, float_of(0x7fc00000u)));
}

/// What each byte of scales that are floats is worth, in units.
std::array<float, 256> worth_of_bytes(const Quantizer& q) {
  std::array<float, 256> worth{};
  for (std::size_t i = 0; i < worth.size(); ++i) {
    const auto code = std::uint8_t(i);
    worth[i] = load_scale(&code, 0, q).scale * unit_of(q);
  }
  return worth;
}

}  // namespace

void narrow(const Rounded& y, const Rounded& x) {
  const NarrowLoops& loops = narrow_loops();
  const Quantizer& q = x.by.quantizer;
  auto *const codes = y.elements.data<std::uint8_t>(), *const scales = y.scales.data<std::uint8_t>();
  if (x.layout == Layout::codes)
    return for_panels(
        x, [&](std::int64_t first, std::int64_t count, std::int64_t scale, std::int64_t scale_count) {
          loops.pack_codes(codes + first / 8 * q.element.bits(),
                           static_cast<const std::int8_t*>(x.elements.raw()) + first, count,
                           code_numbers(q.element));
          pack_scales(scales + scale, x.scales.data() + scale, scale_count, q);
        });
  const std::int64_t cols = x.cols(), row_bytes = (cols + 7) / 8 * q.element.bits();
  for_blocks(x, [&](std::int64_t row, std::int64_t rows, std::int64_t block, float* scratch) {
    loops.pack_values(codes + row * row_bytes, scales + block * cols, scratch,
                      static_cast<const std::uint16_t*>(x.elements.raw()) + row * cols, rows, cols,
                      float_numbers(q.element));
  });
}

void widen(const Rounded& y, const Rounded& x) {
  const NarrowLoops& loops = narrow_loops();
  const Quantizer& q = y.by.quantizer;
  const auto *const codes = x.elements.data<std::uint8_t>(), *const scales = x.scales.data<std::uint8_t>();
  const std::int64_t cols = y.layout == Layout::codes ? 0 : y.cols(),
                     row_bytes = (cols + 7) / 8 * q.element.bits();
  if (y.layout == Layout::values)
    return for_blocks(y, [&](std::int64_t row, std::int64_t rows, std::int64_t block, float* scratch) {
      loops.unpack_values(static_cast<std::uint16_t*>(y.elements.raw()) + row * cols, codes + row * row_bytes,
                          scales + block * cols, scratch, rows, cols, float_numbers(q.element));
    });

  const bool powers = q.scale == ScaleKind::power_of_two;
  const std::array<float, 256> worth = powers ? std::array<float, 256>{} : worth_of_bytes(q);
  const CodeLayout at = code_layout(y);
  for_panels(y, [&](std::int64_t first, std::int64_t count, std::int64_t scale, std::int64_t scale_count) {
    loops.unpack_codes(static_cast<std::int8_t*>(y.elements.raw()) + first,
                       codes + first / 8 * q.element.bits(), count, code_numbers(q.element));
    float* const out = y.scales.data() + scale;
    if (powers) return loops.unpack_exponents(out, scales + scale, scale_count, unit_of(q));
    for (std::int64_t i = 0; i < scale_count; ++i) out[i] = worth[scales[scale + i]];
  });
  // Lines that are missing in the last panel have scales of 0, which no exponent says.
  for (std::int64_t line = at.lines; line < at.panels() * CodeLayout::panel; ++line)
    for (std::int64_t b = 0; b < at.blocks(); ++b) y.scales.data()[at.scale_at(line, b)] = 0;
}

}  // namespace mxtape::cpu
