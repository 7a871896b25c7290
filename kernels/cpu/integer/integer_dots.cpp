#include "kernels/cpu/integer/segment_scales.h"
#include "kernels/cpu/loops/for_lanes.h"

namespace mxtape::cpu::MXT_TIER {
namespace {

constexpr int quad = 4;             // codes of a line that lie together
constexpr int rows_at_once = 4;     // lines of a; sixteen of them are a panel
constexpr int step = lanes * quad;  // bytes of a panel's quad
// Panels of b at once: as many sums as registers hold.
constexpr int most_panels = has_avx512 ? 3 : 1;
// Codes of a line that are multiplied before the next lines of a: b's stay in the first cache.
constexpr int chunk_codes = 384, most_segments = chunk_codes / 16;

/// Whether add_small_products() can multiply.
bool is_small(const DotsJob& j) {
  const int largest = j.a.largest > j.b.largest ? j.a.largest : j.b.largest;
  return has_small_products && largest <= excess && (j.segment == 16 || j.segment == 32);
}

/// Of each segment of each line of a: -excess times the sum of its codes, which sums of products start with,
/// and the scale as add_scaled() has it.
struct Starts {
  const std::int32_t* words;  // [panel][segment][2][lane]
  std::int64_t panel;
  ScalesSeen scales;
};

ScalesSeen find_starts(std::int32_t* words, const DotsJob& j) {
  ScalesSeen seen;
  const i32x16 factor = all_ints(0x01010101);
  for (std::int64_t panel = 0; panel * lanes < j.rows; ++panel) {
    const std::int8_t* codes = j.a.codes + panel * j.a.panel_codes;
    const float* scales = j.a.scales + panel * j.a.panel_scales;
    for (std::int64_t first = 0; first < j.depth; first += j.segment, words += 2 * lanes, scales += lanes) {
      const std::int64_t last = first + j.segment < j.depth ? first + j.segment : j.depth;
      // The sum of (code + excess), less that of the excesses.
      i32x16 sum = all_ints(std::int32_t(first - last) * (has_small_products ? 0 : excess));
      for (std::int64_t k = first; excess && k < last; k += quad, codes += step)
        sum = add_products(sum, as_lines(load_as<u32x16>(codes), false), factor);
      store_as(words, sum * -excess);
      const u32x16 scale = load_as<u32x16>(scales);
      seen.add(scale);
      store_as(words + lanes, select(as_signed(scale) == 0, u32x16{} + one_bits, scale));
    }
  }
  if (j.segment != 16 && j.segment != 32) seen.unsafe = all_ints(-1);  // other loops are not compiled
  return seen;
}

/// Segments [first, last) of a line, and where their codes begin.
struct Chunk {
  std::int64_t first, last;
  bool begins, ends;  // the whole depth
};

/// A chunk of b's panels.
struct Packed {
  const std::int8_t* codes;
  const float* scales;
};

template <Way way, bool small, int panels, int quads_of_segment>
MXT_LANES void tile(const DotsJob& j, const Starts& starts, const Chunk& chunk, Packed b,
                    const float* a_scales, std::int64_t row, std::int64_t col, float* partial) {
  const std::int64_t quads = quads_of_segment ? quads_of_segment : j.segment / quad;
  const std::int64_t panel = row / lanes, lane = row % lanes;
  const std::int8_t* a = j.a.codes + panel * j.a.panel_codes + (chunk.first * quads) * step + lane * quad;
  const std::int32_t* start = starts.words + panel * starts.panel + chunk.first * 2 * lanes + lane;
  // Lines of c are on their way while the products are summed: stores would wait for them.
  for (int i = 0; chunk.ends && i < rows_at_once && row + i < j.rows; ++i)
    for (int p = 0; p < panels; ++p) __builtin_prefetch(j.c + (row + i) * j.c_stride + col + p * lanes, 1);

  f32x16 sums[rows_at_once][panels];
  for (int i = 0; i < rows_at_once; ++i)
    for (int p = 0; p < panels; ++p)
      sums[i][p] = chunk.begins ? f32x16{} : load(partial + (i * panels + p) * lanes);

  for (std::int64_t s = chunk.first; s < chunk.last; ++s) {
    i32x16 t[rows_at_once][panels];
    for (int i = 0; i < rows_at_once; ++i)
      for (int p = 0; p < panels; ++p)
        t[i][p] = excess && !has_small_products ? all_ints(start[i]) : i32x16{};
    const std::int64_t left = j.depth / quad - s * quads;
    const auto add = [&](std::int64_t count) __attribute__((always_inline)) {
      for (std::int64_t k = 0; k < count; ++k, a += step, b.codes += panels * step) {
        Lines lines[panels];
        for (int p = 0; p < panels; ++p) lines[p] = load_as<Lines>(b.codes + p * step);
        for (int i = 0; i < rows_at_once; ++i) {
          std::int32_t word;
          std::memcpy(&word, a + i * quad, sizeof word);
          const i32x16 codes = all_ints(word);
          for (int p = 0; p < panels; ++p)
            if constexpr (small)
              t[i][p] = add_small_products(t[i][p], lines[p], codes);
            else
              t[i][p] = add_products(t[i][p], lines[p], codes);
        }
      }
    };
    if (left >= quads)
      add(quads);
    else
      add(left);
    if constexpr (small)
      for (int i = 0; i < rows_at_once; ++i)
        for (int p = 0; p < panels; ++p) t[i][p] = add_halves(t[i][p]) + all_ints(start[i]);
    add_scaled<way>(sums, t, a_scales, start + lanes, b.scales);
    a_scales += (way == Way::shared ? panels : 1) * lanes, b.scales += panels * lanes, start += 2 * lanes;
  }

  if (!chunk.ends) {
    for (int i = 0; i < rows_at_once; ++i)
      for (int p = 0; p < panels; ++p) store(partial + (i * panels + p) * lanes, sums[i][p]);
    return;
  }
  // A bound or an access that depends on what c has would keep the sums in memory.
  const auto finish = [&](auto whole) __attribute__((always_inline)) {
    for (int i = 0; i < rows_at_once && (whole() || row + i < j.rows); ++i)
      for (int p = 0; p < panels; ++p) {
        const std::int64_t at = col + p * lanes, n = j.cols - at;
        if (!whole() && n <= 0) continue;
        float* const c = j.c + (row + i) * j.c_stride + at;
        f32x16 sum = sums[i][p];
        if (j.factor) sum *= all(*j.factor);
        const auto write = [&](auto part) {
          if (j.bias) sum += part.load(j.bias + at);
          part.store(c, j.accumulate ? part.load(c) + sum : sum);
        };
        whole() || n >= lanes ? write(Full{}) : write(First{n});
      }
  };
  if (row + rows_at_once <= j.rows && col + panels * lanes <= j.cols)
    finish(std::true_type{});
  else
    finish(std::false_type{});
}

/// The tiles of all rows.
template <Way way, bool small, int panels, int quads_of_segment>
void tiles(const DotsJob& job, const Starts& starts, const Chunk chunk, const Packed b, std::int64_t col,
           float* partial) {
  const DotsJob j = job;  // which no store to c can change
  alignas(64) float products[way == Way::shared ? most_segments * panels * lanes : 1];
  for (std::int64_t row = 0; row < j.rows; row += rows_at_once) {
    const float* a_scales = j.a.scales + row / lanes * j.a.panel_scales + chunk.first * lanes;
    if (way == Way::shared && row % lanes == 0)
      multiply_shared<panels>(products, a_scales, b.scales, chunk.last - chunk.first);
    if (way == Way::shared) a_scales = products;
    tile<way, small, panels, quads_of_segment>(j, starts, chunk, b, a_scales + row % lanes, row, col,
                                               partial);
    if (!(chunk.begins && chunk.ends)) partial += rows_at_once * panels * lanes;
  }
}
template <bool small, int panels, int quads_of_segment>
auto tiles_by(Way way) {
  constexpr Way looked = has_avx512 ? Way::looked : Way::plain;  // nobody else asks for it
  return way == Way::added     ? tiles<Way::added, small, panels, quads_of_segment>
         : way >= Way::shifted ? tiles<Way::shifted, small, panels, quads_of_segment>
         : way == Way::shared  ? tiles<Way::shared, small, panels, quads_of_segment>
         : way == Way::looked  ? tiles<looked, small, panels, quads_of_segment>
                               : tiles<Way::plain, small, panels, quads_of_segment>;
}

/// b's panels of a chunk, quad by quad side by side, as add_products() takes them.
template <int panels>
Way pack(std::int8_t* to, float* scales, const DotsJob& j, const Starts& starts, const Chunk& chunk,
         std::int64_t col) {
  const std::int8_t* const codes = j.b.codes + col / lanes * j.b.panel_codes;
  const float* const of_codes = j.b.scales + col / lanes * j.b.panel_scales;
  const std::int64_t end = chunk.last * j.segment < j.depth ? chunk.last * j.segment : j.depth;
  const bool small = is_small(j);
  const auto pack_codes = [&](const auto& change) __attribute__((always_inline)) {
    std::int8_t* y = to;
    for (std::int64_t k = chunk.first * j.segment; k < end; k += quad)
      for (int p = 0; p < panels; ++p, y += step)
        store_as(y, as_lines(change(load_as<u32x16>(codes + p * j.b.panel_codes + k * lanes), k, p), small));
  };
  const Way way =
      pack_scales<panels>(scales, of_codes + chunk.first * lanes, j.b.panel_scales, chunk.last - chunk.first,
                          starts.scales, !has_small_products && j.b.largest <= 8);
  if (way == Way::folded)
    pack_codes([&](const u32x16& quads, std::int64_t k, int p) {
      return times_fraction(quads, of_codes + p * j.b.panel_scales + k / j.segment * lanes);
    });
  else
    pack_codes([](const u32x16& quads, std::int64_t, int) { return quads; });
  return way;
}

template <int panels>
void strip(const DotsJob& j, const Starts& starts, std::int64_t col, float* partial) {
  const std::int64_t segments = (j.depth + j.segment - 1) / j.segment;
  const std::int64_t per_chunk = j.segment < chunk_codes ? chunk_codes / j.segment : 1;
  alignas(64) std::int8_t codes[longest_segment * lanes * panels];
  alignas(64) float scales[most_segments * lanes * panels];
  std::int64_t first = 0;
  do {  // once where the depth is 0, too
    const std::int64_t last = first + per_chunk < segments ? first + per_chunk : segments;
    const Chunk chunk{first, last, first == 0, last == segments};
    const Way way = pack<panels>(codes, scales, j, starts, chunk, col);
    const auto of_length = [&](auto small) {
      return j.segment == 32   ? tiles_by<small(), panels, 32 / quad>(way)
             : j.segment == 16 ? tiles_by<small(), panels, 16 / quad>(way)
                               : tiles<Way::plain, false, panels, 0>;
    };
    const auto compute =
        is_small(j) ? of_length(std::bool_constant<has_small_products>{}) : of_length(std::false_type{});
    compute(j, starts, chunk, {codes, scales}, col, partial);
    first = last;
  } while (first < segments);
}

}  // namespace

void multiply(const DotsJob& j, const DotsScratch& scratch) {
  static_assert(most_panels * lanes <= DotsScratch::most_cols);
  const Starts starts{scratch.words, (j.depth + j.segment - 1) / j.segment * 2 * lanes,
                      find_starts(scratch.words, j)};
  const std::int64_t panels = (j.cols + lanes - 1) / lanes;
  std::int64_t panel = 0;
  for (; panel + most_panels <= panels; panel += most_panels)
    strip<most_panels>(j, starts, panel * lanes, scratch.partial);
  if constexpr (most_panels > 2)
    if (panels - panel == 2) return strip<2>(j, starts, panel * lanes, scratch.partial);
  if (panels > panel) strip<1>(j, starts, panel * lanes, scratch.partial);
}

}  // namespace mxtape::cpu::MXT_TIER
