#pragma once
#include <cstdint>

namespace mxtape {

/// Names of random streams: layer * 64 + site. Layer 0 is the embedding, 1 .. L the blocks, L + 1 the head.
/// Part of every stochastic run's bits: never renumber.
inline constexpr std::uint32_t sites_per_layer = 64;
constexpr std::uint32_t first_id(std::int64_t layer) { return std::uint32_t(layer) * sites_per_layer; }

/// Sites inside a block. Linear layers use four ids, attention up to sixteen.
namespace site {
inline constexpr std::uint32_t qkv = 0;
inline constexpr std::uint32_t attention = 4;
inline constexpr std::uint32_t attention_out = 20;
inline constexpr std::uint32_t attention_dropout = 24;
inline constexpr std::uint32_t mlp_up = 28;
inline constexpr std::uint32_t mlp_down = 32;
inline constexpr std::uint32_t mlp_dropout = 36;
inline constexpr std::uint32_t norm1 = 40, norm2 = 41;
inline constexpr std::uint32_t final_norm = 42;  // of the head's layer
inline constexpr std::uint32_t q_norm = 43, k_norm = 44;
inline constexpr std::uint32_t embedding_table = 4;  // of the embedding's
}  // namespace site

}  // namespace mxtape
