#include "kernels/cpu/loops/four_over_six_loops.h"

#include "kernels/cpu/loops/simd_round.h"

namespace mxtape::cpu::MXT_TIER {
namespace {

constexpr int longest_block = 64;

/// What sixteen blocks err in sum with either of two scales.
template <bool absolute>
struct Errors {
  NearestEven round;
  f32x16 inverse[2], scale[2];
  f32x16 sum[2] = {};

  [[gnu::always_inline]] f32x16 of(const f32x16& x, int k) const {
    const f32x16 scaled = x * inverse[k];
    const f32x16 error = (round(scaled, nullptr, 0) - scaled) * scale[k];
    return absolute ? magnitude(error) : error * error;
  }
  [[gnu::always_inline]] void add(const f32x16& x) {
    sum[0] += of(x, 0);
    sum[1] += of(x, 1);
  }
  /// In the lanes of `there` alone.
  [[gnu::always_inline]] void add(const f32x16& x, const i32x16& there) {
    for (int k = 0; k < 2; ++k) sum[k] = select(there, sum[k] + of(x, k), sum[k]);
  }
};

/// Calls run(errors) with those of the entries from `at` on.
template <class Run>
MXT_LANES void with_errors(TileScales best, TileScales other, int at, const BlockRule& rule, const Run& run) {
  const f32x16 inverse[2] = {load(best.inverse + at), load(other.inverse + at)},
               scale[2] = {load(best.scale + at), load(other.scale + at)};
  if (rule.absolute_error)
    run(Errors<true>{{rule.grid}, {inverse[0], inverse[1]}, {scale[0], scale[1]}});
  else
    run(Errors<false>{{rule.grid}, {inverse[0], inverse[1]}, {scale[0], scale[1]}});
}

template <bool absolute>
MXT_LANES void take_better(TileScales best, int at, int count, const Errors<absolute>& errors) {
  const i32x16 better = errors.sum[1] < errors.sum[0];
  store_first(best.inverse + at, select(better, errors.inverse[1], errors.inverse[0]), count);
  store_first(best.scale + at, select(better, errors.scale[1], errors.scale[0]), count);
}

void take_better_along_row(TileScales best, TileScales other, const Tile& t, int along,
                           const BlockRule& rule) {
  const int per_row = (t.cols + along - 1) / along, count = t.rows * per_row;
  // All of it is written before the first vector is read: one whose lanes were just written would wait.
  alignas(64) float turned[longest_block * lanes];  // [element][block]
  std::int32_t lengths[lanes];
  for (int first = 0; first < count; first += lanes) {
    int shortest = along;
    for (int lane = 0; lane < lanes; ++lane) {
      const int entry = first + lane < count ? first + lane : count - 1;
      const int r = entry / per_row, c = entry % per_row * along;
      const float* const block = t.x + r * t.stride + c;
      const int length = t.cols - c < along ? t.cols - c : along;
      for (int i = 0; i < length; ++i) turned[i * lanes + lane] = block[i];
      for (int i = length; i < along; ++i) turned[i * lanes + lane] = 0;
      lengths[lane] = length;
      shortest = length < shortest ? length : shortest;
    }
    const i32x16 length = load_as<i32x16>(lengths);
    with_errors(best, other, first, rule, [&](auto errors) {
      for (int i = 0; i < shortest; ++i) errors.add(load(turned + i * lanes));
      for (int i = shortest; i < along; ++i) errors.add(load(turned + i * lanes), all_ints(i) < length);
      take_better(best, first, count - first < lanes ? count - first : lanes, errors);
    });
  }
}

void take_better_along_column(TileScales best, TileScales other, const Tile& t, int along,
                              const BlockRule& rule) {
  for (int top = 0, line = 0; top < t.rows; top += along, line += t.cols) {
    const int bottom = top + along < t.rows ? top + along : t.rows;
    for (int c = 0; c < t.cols; c += lanes) {
      const int n = t.cols - c < lanes ? t.cols - c : lanes;
      with_errors(best, other, line + c, rule, [&](auto errors) {
        for (int r = top; r < bottom; ++r) {
          const float* const x = t.x + r * t.stride + c;
          errors.add(n == lanes ? load(x) : load_first(x, n));
        }
        take_better(best, line + c, n, errors);
      });
    }
  }
}

}  // namespace

extern const FourOverSixLoops four_over_six_loops{take_better_along_row, take_better_along_column};

}  // namespace mxtape::cpu::MXT_TIER
