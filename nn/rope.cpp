#include "nn/config.h"

#include <cmath>
#include <numbers>

#include "core/parallel.h"
#include "kernels/observers/dry_backend.h"

namespace mxtape {
namespace {

float scaled(float w, const RopeConfig& c) {
  if (c.scaling == RopeScaling::none) return w;
  if (c.scaling == RopeScaling::linear) return w / c.factor;
  const auto original = float(c.original);
  const float wavelength = float(2 * std::numbers::pi) / w;
  if (wavelength < original / c.high) return w;
  if (wavelength > original / c.low) return w / c.factor;
  const float s = (original / wavelength - c.low) / (c.high - c.low);
  return (1 - s) * w / c.factor + s * w;
}

}  // namespace

std::vector<float> rope_frequencies(const RopeConfig& c, std::int64_t D) {
  std::vector<float> w;
  for (std::int64_t i = 0; i < D / 2; ++i) {
    const float exponent = float(2 * i) / float(D);
    w.push_back(scaled(1 / std::pow(c.theta, exponent), c));
  }
  return w;
}

RopeAngles rope_angles(const std::vector<float>& frequencies, std::int64_t first, std::int64_t positions) {
  const auto half = std::int64_t(frequencies.size());
  RopeAngles a{std::vector<float>(std::size_t(positions * half)),
               std::vector<float>(std::size_t(positions * half))};
  parallel_for(positions, 64, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t t = begin; t < end; ++t)
      for (std::int64_t i = 0; i < half; ++i) {
        const float angle = float(first + t) * frequencies[std::size_t(i)];
        const auto at = std::size_t(t * half + i);
        // Rounded from double, where they are within an ulp.
        a.cos[at] = float(std::cos(double(angle)));
        a.sin[at] = float(std::sin(double(angle)));
      }
  });
  return a;
}

RotaryTables make_rotary_tables(Backend& backend, const RopeConfig& c, std::int64_t D,
                                std::int64_t positions) {
  const RotaryTables tables{backend.empty({positions, D / 2}), backend.empty({positions, D / 2})};
  if (merely_counts(backend)) return tables;  // a memory plan's, of which there may be twenty
  const RopeAngles angles = rope_angles(rope_frequencies(c, D), 0, positions);
  backend.upload(tables.cos, angles.cos.data());
  backend.upload(tables.sin, angles.sin.data());
  return tables;
}

}  // namespace mxtape
