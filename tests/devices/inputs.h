#pragma once
#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <set>

#include "formats/quantizer.h"
#include "tests/conformance/golden.h"
#include "tests/support/device.h"
#include "tests/support/tensors.h"

/// What the tests of tests/devices/ give to both, the device and the CPU.
namespace mxtape::test {

inline Backend& the_cpu() {
  static const std::unique_ptr<Backend> backend = make_backend("cpu");
  return *backend;
}

/// x [rows, cols], which begins `offset` elements into its memory.
struct Source {
  std::int64_t rows, cols;
  std::vector<float> values{};
  DType dtype = DType::f32;
  std::int64_t offset = 0;
};

inline Tensor placed(Backend& on, const Source& x) {
  if (x.dtype == DType::f32 && x.offset == 0) return upload(on, {x.rows, x.cols}, x.values);
  const Tensor memory = on.empty({x.offset + x.rows * x.cols}, x.dtype);
  void* const first = static_cast<char*>(memory.raw()) + x.offset * size_of(x.dtype);
  const Tensor part(std::shared_ptr<void>(std::make_shared<Tensor>(memory), first), {x.rows, x.cols},
                    x.dtype);
  on.copy(part, upload(on, part.shape(), x.values));
  return part;
}

/// The presets, each with nearest and with stochastic rounding.
inline std::vector<Quantizer> preset_quantizers() {
  std::vector<Quantizer> all;
  for (const Preset& preset : presets)
    for (const Rounding rounding : {Rounding::even, Rounding::stochastic}) {
      Quantizer q = preset.quantizer;
      q.rounding = rounding;
      if (std::find(all.begin(), all.end(), q) == all.end()) all.push_back(q);  // some have two names
    }
  return all;
}

/// The set of the repository; where the environment says, for a machine that did not build this.
inline const std::filesystem::path golden = std::getenv("MXTAPE_GOLDEN")
                                                ? std::filesystem::path(std::getenv("MXTAPE_GOLDEN"))
                                                : std::filesystem::path(MXTAPE_SOURCE) / "tests/golden";
inline const std::vector<conformance::Case>& golden_cases() {
  static const conformance::GoldenSet set(golden);
  return set.cases();
}

/// The inputs of the golden set, each once: many cases share theirs.
inline std::vector<Source> golden_inputs() {
  std::vector<Source> all;
  std::set<std::vector<std::uint32_t>> seen;
  for (const conformance::Case& c : golden_cases()) {
    if (!c.has("x")) continue;
    Source x;
    x.values = c.floats("x");
    std::vector<std::uint32_t> bits;
    for (const float v : x.values) bits.push_back(bits_of(v));
    if (!seen.insert(bits).second) continue;
    const auto count = std::int64_t(x.values.size());
    x.cols = c.has("shape") ? c.extents("shape").back() : count;
    x.rows = count / x.cols;
    all.push_back(x);
  }
  return all;
}

}  // namespace mxtape::test
