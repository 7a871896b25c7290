#include <algorithm>
#include <cmath>
#include <vector>

#include "core/error.h"
#include "formats/codec/codec.h"
#include "formats/quantize_blocks.h"
#include "kernels/mx_transfer.h"
#include "tests/conformance/outcome.h"

namespace mxtape::conformance {
namespace {

/// A tensor as the matrices that a quantizer sees one after another: equal in shape, one behind the other.
struct Matrices {
  std::int64_t count, rows, cols;
  Axis axis;
};

Matrices matrices_of(const Case& c) {
  const auto shape = c.extents("shape");
  const auto product = [&](std::size_t from, std::size_t to) {
    std::int64_t n = 1;
    for (std::size_t i = from; i < to; ++i) n *= shape[i];
    return n;
  };
  const std::size_t rank = shape.size();
  const std::string kind = c.text_or("axis", "");
  if (kind == "flat") return {1, 1, product(0, rank), Axis::row};
  if (kind == "2d") return {product(0, rank - 2), shape[rank - 2], shape[rank - 1], Axis::row};
  const auto axis = static_cast<std::int64_t>(c.number("axis"));
  const auto at = std::size_t(axis < 0 ? axis + std::int64_t(rank) : axis);
  require(at < rank, ExitCode::data, "conformance: case {}: axis {} of {} axes", c.name, axis, rank);
  if (at + 1 == rank) return {1, product(0, at), shape[at], Axis::row};
  return {product(0, at), shape[at], product(at + 1, rank), Axis::column};
}

Quantizer quantizer_of(const Case& c) {
  const bool pychop = c.text("peer").starts_with("pychop");
  Quantizer q = mx(element_named(c.text("elem")));
  if (q.element.is_integer() && !q.element.full_range)
    q.element.full_range = c.has("int_symmetric") ? c.number("int_symmetric") == 0 : pychop;
  q.rule = rule_named(c.text("scale_mode"));
  q.rounding = rounding_named(c.text("rounding"));
  const double size = c.number("block");
  require(size >= 0 && size <= 0x1p20, ExitCode::data, "conformance: case {}: block {}; want 0 to 2^20",
          c.name, size);
  const auto block = std::int32_t(size);
  q.block = {c.has_tag("per_element_scale") ? 1 : block, c.text_or("axis", "") == "2d" ? block : 1};
  if (c.number_or("scale_bits", 0) != 0) {
    q.scale_bits = std::uint8_t(c.number("scale_bits"));
    q.overflow = pychop ? ScaleOverflow::saturate : ScaleOverflow::nan;
  }
  q.flush_subnormals = c.has_tag("flush_fp32_subnorms");
  if (c.has_tag("asymmetric_fp16_midpoint")) q.offset = Offset::midpoint;
  if (q.is_stochastic()) q.sr_bits = 32;
  return q;
}

/// The peer's uniforms as 32-bit draws: floor(t + u) is then exact.
std::vector<std::uint32_t> draws_of(const Case& c, const Quantizer& q, std::size_t count) {
  if (!q.is_stochastic()) return std::vector<std::uint32_t>(count);
  std::vector<std::uint32_t> draws;
  for (const float u : c.floats("u", count)) draws.push_back(std::uint32_t(double(u) * 0x1p32));
  return draws;
}

/// What our code makes of a case.
struct Ours {
  std::vector<float> values;         // quantize_reference
  std::vector<MxTensor> packed;      // of each matrix
  std::vector<float> unpacked;       // from there
  std::vector<std::uint32_t> codes;  // of elements
  std::vector<std::uint8_t> scales;  // E8M0 bytes
  std::vector<float> offsets, amax;  // per block
};

Ours quantize_case(const Case& c, const Quantizer& q, const Matrices& m, const std::vector<float>& x) {
  Ours ours;
  ours.values.resize(x.size());
  ours.unpacked.resize(x.size());
  const auto draws = draws_of(c, q, x.size());
  const std::int64_t size = m.rows * m.cols;
  for (std::int64_t k = 0; k < m.count; ++k) {
    const float* from = x.data() + k * size;
    const std::span part(draws.data() + k * size, std::size_t(size));
    quantize_with_draws(ours.values.data() + k * size, from, m.rows, m.cols, m.axis, q, part);
    const MxTensor packed = pack_with_draws(from, m.rows, m.cols, m.axis, q, part);
    unpack(ours.unpacked.data() + k * size, packed);
    const auto codes = unpack_bits(packed.codes, q.element.bits(), size);
    ours.codes.insert(ours.codes.end(), codes.begin(), codes.end());
    ours.scales.insert(ours.scales.end(), packed.scales.begin(), packed.scales.end());
    for (const std::uint16_t bits : packed.offsets) ours.offsets.push_back(decode(f16, bits));
    ours.packed.push_back(packed);
    for_each_block(m.rows, m.cols, block_extent(q.block, m.rows, m.cols, m.axis),
                   [&](const BlockRange& range) {
                     std::uint32_t largest = 0;
                     for_each_element(range, m.cols, [&](std::int64_t i) {
                       largest = std::max(largest, bits_of(from[i]) & 0x7fffffffu);
                     });
                     ours.amax.push_back(float_of(largest));
                   });
  }
  return ours;
}

/// Empty if the backend's kernels, which round nearest or by keyed draws only, give the same values and the
/// same bytes, and the same values from these.
std::string compare_backend(Backend& backend, const Quantizer& q, const Matrices& m,
                            const std::vector<float>& x, const Ours& ours) {
  if (q.is_stochastic() || m.rows * m.cols == 0) return {};
  std::vector<float> got(x.size()), unpacked(x.size());
  for (std::int64_t k = 0; k < m.count; ++k) {
    const std::int64_t first = k * m.rows * m.cols;
    const Tensor source = backend.empty({m.rows, m.cols});
    backend.upload(source, x.data() + first);
    const Rounded copy = with_room(backend, wanted(q, m.axis, source.shape()));
    backend.run(call::Quantize{{&copy, 1}, source});
    const Tensor wide = backend.empty({m.rows, m.cols});
    backend.copy(wide, copy.elements);
    backend.download(got.data() + first, wide);

    const MxTensor packed = pack(backend, x.data() + first, m.rows, m.cols, m.axis, q, {});
    const MxTensor& want = ours.packed[std::size_t(k)];
    if (packed.codes != want.codes || packed.scales != want.scales || packed.offsets != want.offsets)
      return fmt::format("matrix {}: the backend's packed bytes are not those of the definition", k);
    unpack(backend, unpacked.data() + first, packed);
  }
  if (auto text = first_difference("backend's unpacked", unpacked, ours.unpacked); !text.empty()) return text;
  // The operand of a GEMM is the bf16 number nearest to code * scale.
  std::vector<float> want = ours.values;
  if (q.operand_dtype() == DType::bf16)
    for (float& v : want) v = to_f32(to_bf16(v));
  return first_difference("backend value", got, want);
}

/// torchao's `even` adds to the bits of amax, which near the largest f32 gives infinity and a NaN block; the
/// rule itself gives a scale. Elements of such blocks are left out.
std::vector<bool> blocks_left_out(const Case& c, const Quantizer& q, const Ours& ours) {
  std::vector<bool> out(ours.amax.size(), false);
  if (c.text("peer") != "torchao" || q.rule != ScaleRule::even) return out;
  for (std::size_t b = 0; b < out.size(); ++b)
    out[b] = std::isfinite(ours.amax[b]) &&
             bits_of(ours.amax[b]) + (1u << (22 - q.element.mantissa_bits)) >= 0x7f800000u;
  return out;
}

}  // namespace

Outcome run_block_quant(const Case& c, Backend& backend) {
  const std::string& peer = c.text("peer");
  if (c.has_tag("peers_disagree") && peer != "microxcaling-cpp" && peer != "torchao")
    return not_applicable("by peers that depart from the definition here: docs/numerics.md");
  const Quantizer q = quantizer_of(c);
  const Matrices m = matrices_of(c);
  const auto x = c.floats("x", std::size_t(m.count * m.rows * m.cols));
  const Ours ours = quantize_case(c, q, m, x);

  std::vector<std::size_t> block_of(x.size());
  std::size_t block = 0;
  for (std::int64_t k = 0; k < m.count; ++k)
    for_each_block(
        m.rows, m.cols, block_extent(q.block, m.rows, m.cols, m.axis), [&](const BlockRange& range) {
          for_each_element(range, m.cols,
                           [&](std::int64_t i) { block_of[std::size_t(k * m.rows * m.cols + i)] = block; });
          ++block;
        });
  const auto left_out = blocks_left_out(c, q, ours);

  auto want = c.floats("dq", x.size());
  for (std::size_t i = 0; i < x.size(); ++i)
    if (left_out[block_of[i]]) want[i] = ours.values[i];
  if (auto text = first_difference("dq", ours.values, want); !text.empty()) return failed(text);
  if (auto text = first_difference("unpacked", ours.unpacked, ours.values); !text.empty())
    return failed(text);
  if (auto text = compare_backend(backend, q, m, x, ours); !text.empty()) return failed(text);

  if (c.has("codes")) {
    const auto codes = c.integers("codes", x.size());
    const std::uint32_t all = (1u << q.element.bits()) - 1,
                        magnitude = q.element.is_integer() ? all : all >> 1;
    for (std::size_t i = 0; i < codes.size(); ++i) {
      const std::uint32_t got = ours.codes[i], wanted = std::uint32_t(codes[i]) & all;
      const bool both_zero = ((got | wanted) & magnitude) == 0;
      if (got != wanted && !both_zero && !std::isnan(want[i]) && !left_out[block_of[i]])
        return failed(fmt::format("code[{}] = {:#x}, want {:#x}", i, got, wanted));
    }
  }
  if (c.has("scales")) {
    const auto scales = c.integers("scales", ours.scales.size());
    for (std::size_t b = 0; b < scales.size(); ++b)
      if (ours.scales[b] != scales[b] && ours.amax[b] != 0 && !left_out[b])
        return failed(fmt::format("scale[{}] = {}, want {}", b, ours.scales[b], scales[b]));
  }
  if (c.has("offset"))
    if (auto text = first_difference("offset", ours.offsets, c.floats("offset", ours.offsets.size()));
        !text.empty())
      return failed(text);
  if (std::count(left_out.begin(), left_out.end(), true) > 0)
    return {Outcome::Status::passed,
            "compared but for blocks near the largest f32, where torchao's even overflows"};
  return passed();
}

}  // namespace mxtape::conformance
