#pragma once
#include <cstdint>
#include <vector>

#include "interop/hf_names.h"

namespace mxtape {

/// llm.c's model.bin: 256 i32, then every tensor of the table of gpt2, a kind at a time through all blocks.
/// Weights are [out, in] as ours. Source: karpathy/llm.c, train_gpt2.cu, gpt2_write_to_checkpoint().
namespace llmc {
inline constexpr std::int32_t magic = 20240326, llama_magic = 20240803;
inline constexpr std::int32_t version_f32 = 3, version_bf16 = 5;
inline constexpr std::int64_t header_numbers = 256, header_bytes = 4 * header_numbers;
inline constexpr std::int64_t vocabulary_multiple = 128;  ///< the table is padded to it
/// Where the numbers stand.
enum Field : std::size_t {
  at_magic,
  at_version,
  at_positions,
  at_vocabulary,
  at_layers,
  at_heads,
  at_width,
  at_padded
};
}  // namespace llmc

/// The tensors of ours in the order of such a file.
std::vector<TensorPlan> llmc_order(const ModelFacts&);

}  // namespace mxtape
