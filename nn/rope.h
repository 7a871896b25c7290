#pragma once
#include <cstdint>
#include <vector>

#include "autograd/ops.h"

namespace mxtape {

enum class RopeScaling : std::uint8_t { none, linear, llama3 };

/// Rotary positions: pair i of a head of D channels turns by w_i = theta^(-2 i / D) for each token. Su et al.
/// 2021, arXiv:2104.09864. Scaling stretches a model that was trained on shorter texts: `linear` divides all
/// w by `factor` (Chen et al. 2023, arXiv:2306.15595); `llama3` divides those that turn less than `low` times
/// within `original` tokens, keeps those that turn more than `high` times, and goes from one to the other in
/// between.
struct RopeConfig {
  float theta = 10000;
  RopeScaling scaling = RopeScaling::none;
  float factor = 1, low = 1, high = 4;
  std::int64_t original = 0;
  bool operator==(const RopeConfig&) const = default;
};

/// w [D / 2], in the f32 steps of transformers: long contexts would differ else.
std::vector<float> rope_frequencies(const RopeConfig&, std::int64_t D);

struct RopeAngles {
  std::vector<float> cos, sin;  ///< [positions, D / 2]
};
/// Of positions first, first + 1 ...: the f32 product of position and w, its cosine and sine correctly
/// rounded.
RopeAngles rope_angles(const std::vector<float>& frequencies, std::int64_t first, std::int64_t positions);

RotaryTables make_rotary_tables(Backend&, const RopeConfig&, std::int64_t D, std::int64_t positions);

}  // namespace mxtape
