#include <algorithm>
#include <limits>
#include <optional>
#include <vector>

#include "core/parallel.h"
#include "kernels/check_quantize.h"
#include "kernels/cpu/cpu_backend.h"
#include "kernels/cpu/quantize_tile.h"
#include "kernels/cpu/stored.h"
#include "kernels/cpu/tile_rotation.h"

namespace mxtape {
namespace {

using cpu::ceil_div, cpu::unit_of, cpu::Tile;

/// Rows whose column sums are added up first; then come the strips in order. Independent of the copies'
/// blocks.
constexpr int strip_rows = 32;

/// Zeros for the lines that are missing in the last panel, and for codes that no block has.
void clear_ends(const Rounded& copy, bool all_codes) {
  const CodeLayout l = code_layout(copy);
  auto* const codes = static_cast<std::int8_t*>(copy.elements.raw());
  const std::int64_t code_count = copy.elements.count(), scale_count = copy.scales.count();
  if (all_codes) std::fill_n(codes, code_count, std::int8_t{0});
  if (l.lines % CodeLayout::panel == 0) return;
  if (!all_codes)
    std::fill(codes + code_count - l.padded_depth() * CodeLayout::panel, codes + code_count, std::int8_t{0});
  std::fill(copy.scales.data() + scale_count - l.blocks() * CodeLayout::panel,
            copy.scales.data() + scale_count, 0.0f);
}

/// Every quantizer, by the scalar definition, blocks shared among the threads.
void quantize_by_definition(const Rounded& copy, const BlockRule& rule, float encode, const float* x,
                            std::int64_t rows, std::int64_t cols) {
  struct Sink {
    float* wide;
    bf16* narrow;
    void block(const BlockRange&, const BlockScale&) {}
    void element(std::int64_t i, float rounded, const BlockScale& s) {
      if (wide)
        wide[i] = value_of(s, rounded);
      else
        narrow[i] = to_bf16(value_of(s, rounded));
    }
  };
  struct CodeSink {
    CodeLayout layout;
    bool rows;  // are lines
    std::int64_t cols;
    std::int8_t* codes;
    float* scales;
    float unit;
    void block(const BlockRange& b, const BlockScale& s) {
      const std::int64_t index = (rows ? b.col : b.row) / layout.along;
      for (std::int64_t line = rows ? b.row : b.col; line < (rows ? b.row_end : b.col_end); ++line)
        scales[layout.scale_at(line, index)] = s.scale * unit;
    }
    void element(std::int64_t i, float rounded, const BlockScale& s) {
      const std::int64_t r = i / cols, c = i % cols;
      const bool none = !(s.scale > 0) || rounded != rounded;  // EDEN's scales may become 0
      codes[rows ? layout.code_at(r, c) : layout.code_at(c, r)] =
          none ? std::int8_t{0} : std::int8_t(rounded / unit);
    }
  };
  const auto quantize = [&](const auto& sink) {
    cpu::blocks_by_definition(copy.by, rule, encode, x, rows, cols, sink,
                              copy.average ? copy.average.data() : nullptr);
  };
  if (copy.layout == Layout::codes)
    return quantize(CodeSink{code_layout(copy), copy.by.axis == Axis::row, cols,
                             static_cast<std::int8_t*>(copy.elements.raw()), copy.scales.data(),
                             unit_of(copy.by.quantizer)});
  const bool narrow = copy.elements.dtype() == DType::bf16;
  quantize(Sink{narrow ? nullptr : copy.elements.data(), narrow ? copy.elements.data<bf16>() : nullptr});
}

/// A copy that is made tile by tile.
struct TiledCopy {
  const Rounded* copy;
  BlockRule rule;
  float encode;
  std::optional<cpu::TileRotation> rotation;
  float amax = 0;  // of the tensor, where it is one block
};

/// Makes all `copies`, and the column sums of each strip of rows, in one pass over x.
void quantize_tiles(std::span<const TiledCopy> copies, const Tensor& x, float* strip_sums) {
  const std::int64_t cols = x.cols();
  const DrawKey* draws = nullptr;  // of all whose elements draw
  int down = strip_rows, right = 1;
  for (const TiledCopy& c : copies) {
    const Quantizer& q = c.copy->by.quantizer;
    if (q.rounding == Rounding::stochastic) draws = &c.copy->by.draws;
    down = std::max({down, q.block.along, q.block.across, c.rotation ? c.rotation->down() : 1});
    right = std::max({right, q.block.along, q.block.across, c.rotation ? c.rotation->right() : 1});
  }
  const auto make = [&](const Tile& tile, std::int64_t row, std::int64_t col, cpu::TileDraws bits) {
    for (int r = 0; strip_sums && r < tile.rows; r += strip_rows) {
      const Tile strip{tile.x + r * cols, cols, std::min(strip_rows, tile.rows - r), tile.cols};
      cpu::quantize_loops().sum_columns(strip_sums + (row + r) / strip_rows * cols + col, strip);
    }
    for (const TiledCopy& c : copies) {
      const Rounded& copy = *c.copy;
      const Tile source = c.rotation ? (*c.rotation)(tile, row, col) : tile;
      const auto quantize = [&](auto y) {
        // Draws are counted in the tensor, whose rows a rotated tile leaves.
        const std::int64_t first = row * cols + col;
        cpu::CopyDraws own{&copy.by.draws, std::uint64_t(first), cols, bits, c.amax};
        if (copy.average) own.averages = copy.average.data() + first;
        cpu::quantize_tile(y, source, copy.by.axis, copy.by.quantizer, c.rule, c.encode, own);
      };
      const CodeLayout l = code_layout(copy);
      const bool lines_are_rows = copy.by.axis == Axis::row;
      if (copy.layout == Layout::codes)
        quantize(cpu::TileCodes{static_cast<std::int8_t*>(copy.elements.raw()), copy.scales.data(),
                                l.padded_depth() * CodeLayout::panel, l.blocks() * CodeLayout::panel,
                                lines_are_rows ? row : col, lines_are_rows ? col : row,
                                unit_of(copy.by.quantizer)});
      else if (copy.elements.dtype() == DType::f32)
        quantize(cpu::TileValues{nullptr, cols, copy.elements.data() + row * cols + col});
      else
        quantize(cpu::TileValues{static_cast<std::uint16_t*>(copy.elements.raw()) + row * cols + col, cols});
    }
  };
  cpu::for_tiles(x.data(), x.rows(), cols, cpu::tile_extent(cols, down, right), draws, make);
}

/// sums[c] (+)= the strips' sums, first strip first: the order depends on the shape only.
void add_strips(float* sums, Write write, const float* strips, std::int64_t count, std::int64_t cols) {
  constexpr std::int64_t grain = 1024;
  parallel_for(cols, grain, [&](std::int64_t begin, std::int64_t end) {
    std::vector<float> total(strips + begin, strips + end);
    for (std::int64_t strip = 1; strip < count; ++strip)
      for (std::int64_t c = begin; c < end; ++c) total[std::size_t(c - begin)] += strips[strip * cols + c];
    for (std::int64_t c = begin; c < end; ++c)
      sums[c] = write == Write::accumulate ? sums[c] + total[std::size_t(c - begin)]
                                           : total[std::size_t(c - begin)];
  });
}

}  // namespace

void CpuBackend::compute(const call::Quantize& call) {
  check_quantize(call.to, call.x, call.column_sums, call.first_uncoded);
  const std::int64_t rows = call.x.rows(), cols = call.x.cols();
  std::vector<TiledCopy> tiled;
  constexpr std::int64_t most = std::numeric_limits<std::int32_t>::max();
  std::int64_t first_uncoded = -1;
  std::optional<float> amax;  // of x as it is, which copies share
  for (const Rounded& copy : call.to) {
    const Quantizer& q = copy.by.quantizer;
    const bool rotates = copy.by.rotation.size != 0;
    const bool by_tiles = copy.layout != Layout::stored && cpu::fits_tiles(q) &&
                          (copy.layout != Layout::codes || cpu::loop_length(q.block) == q.block.along);
    const Tensor source = rotates && !by_tiles ? rotated(call.x, copy.by) : call.x;
    if (copy.layout == Layout::stored) {
      const std::int64_t found = cpu::pack(copy, source.data());
      if (first_uncoded < 0 || (found >= 0 && found < first_uncoded)) first_uncoded = found;
      continue;
    }
    const BlockRule rule = block_rule(q);
    TiledCopy tiles{&copy, rule, 1, {}};
    if (rotates && by_tiles) tiles.rotation.emplace(copy.by, rows, cols);
    if (q.has_tensor_scale() || (by_tiles && q.block.along == 0)) {
      std::optional<float> of_rotated, &found = rotates ? of_rotated : amax;
      if (!found) found = cpu::amax_of(source, tiles.rotation ? &*tiles.rotation : nullptr);
      tiles.amax = *found;
      if (q.has_tensor_scale()) tiles.encode = tensor_encode_scale(rule, *found);
    }
    if (copy.multiplier) *copy.multiplier.data() = 1 / tiles.encode / q.alpha;
    if (copy.layout == Layout::codes) clear_ends(copy, !by_tiles);
    if (q == bf16_cast)
      compute(call::Copy{copy.elements, source});
    else if (!by_tiles)
      quantize_by_definition(copy, rule, tiles.encode, source.data(), rows, cols);
    else
      tiled.push_back(std::move(tiles));
  }
  if (call.first_uncoded)
    *call.first_uncoded.data<std::int32_t>() = std::int32_t(std::min(first_uncoded, most));
  if (tiled.empty() && !call.column_sums) return;
  const std::int64_t strips = ceil_div(rows, strip_rows);
  const Tensor strip_sums = call.column_sums ? empty({strips, cols}) : Tensor{};
  quantize_tiles(tiled, call.x, call.column_sums ? strip_sums.data() : nullptr);
  if (!call.column_sums) return;
  if (rows > 0)
    add_strips(call.column_sums.data(), call.sums, strip_sums.data(), strips, cols);
  else if (call.sums == Write::overwrite)
    fill(call.column_sums, 0);
}

}  // namespace mxtape
