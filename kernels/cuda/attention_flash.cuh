#pragma once
#include "kernels/cuda/attention_paths.h"
#include "kernels/cuda/attention_tiles.cuh"
#include "kernels/cuda/elements.cuh"
#include "kernels/cuda/launch.h"

// What the kernels of attention on tensor cores share.
namespace mxtape::cuda {

inline constexpr float log2_e = 0x1.715476p+0f;

/// The head and the tile of it that a block works on. Blocks of one head follow each other, so that the
/// tiles that several of them read stay in the second level cache.
struct FlashPlace {
  const AttentionShape& shape;
  int tiles, tile;
  std::int64_t head;  // b H + h

  __device__ FlashPlace(const AttentionShape& s, int rows)
      : shape(s),
        tiles(int((s.time + rows - 1) / rows)),
        tile(int(blockIdx.x % unsigned(tiles))),
        head(blockIdx.x / unsigned(tiles)) {}

  /// Where the head's part lies in a tensor [B, T, parts, H, D].
  __device__ std::int64_t offset(int part, int parts) const {
    const std::int64_t b = head / shape.heads, h = head % shape.heads;
    return b * shape.time * stride(parts) + (part * shape.heads + h) * shape.width;
  }
  __device__ std::int64_t stride(int parts) const { return parts * shape.heads * shape.width; }
  __device__ HeadMatrix part(const bf16* x, int part, int parts) const {
    return {x + offset(part, parts), stride(parts)};
  }
};
inline unsigned flash_blocks(const AttentionShape& s, int rows) {
  return blocks_for(s.batch * s.heads * ((s.time + rows - 1) / rows), 1);
}

/// x itself, or a copy of it rounded to bf16.
Tensor as_bf16(Backend&, const Tensor& x);

}  // namespace mxtape::cuda
