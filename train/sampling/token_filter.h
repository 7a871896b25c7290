#pragma once
#include <cstdint>
#include <span>
#include <vector>

namespace mxtape {

/// Which tokens may be drawn. In the order of the fields, each on what the one before left, probabilities
/// adding up to 1 again; of equally likely tokens the smaller one counts as likelier.
struct TokenFilter {
  double temperature = 1;  ///< logits are divided by it; 0: always the likeliest token
  std::int64_t top_k = 0;  ///< the k likeliest tokens; 0: all
  double top_p = 1;        ///< the fewest likeliest that together reach p, at least one (arXiv:1904.09751)
  double min_p = 0;        ///< those that are min_p times as likely as the likeliest (arXiv:2407.01082)
};

struct Candidates {
  std::vector<std::int32_t> tokens;   ///< that may be drawn, the likeliest first
  std::vector<double> probabilities;  ///< their sum is 1
};
/// Logits must be finite, or -infinity for tokens that cannot come.
Candidates candidates(std::span<const float> logits, const TokenFilter&);

/// One draw: `uniform` in [0, 1) picks a candidate.
std::int32_t draw_token(std::span<const float> logits, const TokenFilter&, float uniform);

}  // namespace mxtape
