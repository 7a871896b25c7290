// Rounds a tensor to a number format of one's own, and measures what that costs beside formats that have a
// name.
//   quantize [FORMAT...]     formats as recipes write them: quantize "e3m0 block=32 scale=e8m0 rule=ceil"
#include <fmt/format.h>

#include <cstdio>
#include <vector>

#include "core/normal.h"
#include "formats/quantize.h"
#include "formats/statistics.h"

namespace {

using namespace mxtape;

/// Five bits: a sign, two of exponent, two of mantissa. Sixteen elements share a scale that is a power of
/// two.
constexpr Quantizer five_bits = mx(float_format(2, 2, Specials::none), 16, ScaleRule::even);

void print_block(const Quantizer& q) {
  const std::vector<float> x{0.02f, -0.11f, 0.3f, 0.42f, -0.57f, 0.66f, 0.81f, -1.3f};
  std::vector<float> y(x.size());
  quantize_reference(y.data(), x.data(), 1, std::int64_t(x.size()), Axis::row, q, DrawKey{});
  fmt::print("one block in {}\n", to_text(q));
  for (std::size_t i = 0; i < x.size(); ++i) fmt::print("  {:6.2f} -> {:7.4f}\n", x[i], y[i]);
}

/// Normal numbers, drawn by index: the same on every machine.
std::vector<float> normal_tensor(std::int64_t count, std::uint64_t seed) {
  std::vector<float> x;
  const DrawKey key{.seed = seed, .purpose = Purpose::initialisation};
  for (std::int64_t i = 0; i < count; i += 2) {
    const NormalPair pair = normal_pair(key, std::uint64_t(i / 2));
    x.push_back(pair.first), x.push_back(pair.second);
  }
  return x;
}

}  // namespace

int main(int argc, char** argv) try {
  print_block(five_bits);

  std::vector<Quantizer> formats{mxfp8_e4m3, mxfp6_e2m3, five_bits, nvfp4, mxfp4};
  for (int i = 1; i < argc; ++i) formats.push_back(parse_quantizer(argv[i]));
  constexpr std::int64_t rows = 256, cols = 512;
  const std::vector<float> x = normal_tensor(rows * cols, 1);
  fmt::print("\n{} x {} normal numbers\n{:<44} {:>14} {:>17}\n", rows, cols, "format", "relative error",
             "bits per element");
  for (const Quantizer& q : formats) {
    const ErrorStatistics s = error_statistics(x.data(), rows, cols, Axis::row, q, DrawKey{.seed = 2});
    fmt::print("{:<44} {:>14.4f} {:>17.3f}\n", to_text(q), s.relative_rmse(), q.bits_per_element());
  }
  return 0;
} catch (const mxtape::Error& e) {
  fmt::print(stderr, "quantize: {}\n", e.what());
  return int(e.code());
}
