#pragma once
#include <algorithm>

#include "kernels/backend.h"
#include "kernels/calls_rows.h"

namespace mxtape::cpu {

// `memory` gives scratch.

// By tiles of queries against the keys that they see: half the work of the whole square where the mask is
// causal, and scratch of one tile. All operands are f32, unrounded. Nothing is dropped.
void attention_by_tiles(Backend& memory, const call::Attention&);
void attention_by_tiles_backward(Backend& memory, const call::AttentionBackward&);

// The same with all operands rounded to bf16, to nearest even, and multiplied two at a time (pairs/pairs.h).
void attention_by_pairs(Backend& memory, const call::Attention&);
void attention_by_pairs_backward(Backend& memory, const call::AttentionBackward&);

/// Keys of a sequence that may be seen.
inline std::int64_t attention_length(const AttentionShape& s, const Tensor& lengths, std::int64_t sequence) {
  if (!lengths) return s.keys;
  return std::clamp<std::int64_t>(lengths.data<std::int32_t>()[sequence], 1, s.keys);
}

}  // namespace mxtape::cpu
