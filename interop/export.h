#pragma once
#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "data/safetensors/header.h"
#include "data/tokenizers/tokenizer.h"
#include "formats/codec/mx_tensor.h"
#include "interop/hf_names.h"

namespace mxtape {

/// The numbers of a tensor of ours, by its name, row-major.
using WeightSource = std::function<std::vector<float>(const std::string& name)>;
/// Its codes, where the forward pass rounds it: the numbers are what they stand for. nullptr: it does not.
using CodeSource = std::function<const MxTensor*(const std::string& name)>;

struct ExportOptions {
  TensorType type = TensorType::f32;          ///< F32, F16, BF16
  std::uint64_t shard_bytes = 5'000'000'000;  ///< of a file of export_hf_folder()
  /// Of export_hf_folder(): rows of the table that are kept; the others are padding.
  std::optional<std::int64_t> vocabulary{};
  bool compressed = false;                   ///< of the same: compressed_tensors() take the places of weights
  CodeSource codes{};                        ///< of these and of export_gguf_file()
  const PrecisionPlan* precision = nullptr;  ///< the same: of the forward pass
};

/// A tensor as a file has it.
struct StoredTensor {
  TensorInfo info;
  std::string bytes{};
};
/// What stands in the place of a weight's parts where compressed-tensors has its codes, and what the
/// config_groups of a config.json say of them. None: it has no such codes. `x`, the rounding of what the
/// layer multiplies by them, becomes f32 where it is said, too. Throws Error(usage) for GPT-2.
std::vector<StoredTensor> compressed_tensors(const TensorPlan&, const MxTensor&, Quantizer& x,
                                             nlohmann::ordered_json& groups);

/// What lies in a folder beside the weights.
struct TokenizerFiles {
  Tokenizer tokenizer;
  std::filesystem::path folder;    ///< of the files as they came; empty: they are made from the tokenizer
  std::vector<std::string> names;  ///< of these files
  bool has(std::string_view name) const { return std::ranges::find(names, name) != names.end(); }
};

/// Writes config.json, model.safetensors (or shards with an index), generation_config.json and the
/// tokenizer's files: what AutoModelForCausalLM.from_pretrained() of transformers 4 and 5 loads. The folder
/// appears whole or not at all. Throws Error(usage) where it is there already, Error(data) for a number that
/// the type does not hold. Returns the bytes of all files, as do the others.
std::uint64_t export_hf_folder(const std::filesystem::path&, ModelFacts, const WeightSource&,
                               const TokenizerFiles&, const ExportOptions&, std::vector<std::string>& notes);

/// Writes llm.c's model.bin, version 3 (F32) or 5 (BF16). Throws Error(usage) with the key of a model that it
/// cannot say: its header has neither eps nor kind of GELU, head and MLP.
std::uint64_t export_llmc_file(const std::filesystem::path&, const ModelFacts&, const WeightSource&,
                               const ExportOptions& = {});

/// Writes a GGUF file of GPT-2, Llama, Qwen2 or Qwen3 with its tokenizer: codes in the types that hold them
/// exactly, other matrices in options.type, vectors in F32. What GGUF cannot say goes to `notes`, or throws
/// Error(usage) if readers would compute something else.
std::uint64_t export_gguf_file(const std::filesystem::path&, const ModelFacts&, const WeightSource&,
                               const Tokenizer&, const ExportOptions&, std::vector<std::string>& notes);

/// Writes one safetensors file with our names and [out, in] layout. `shapes`: of all parameters.
std::uint64_t export_plain_file(const std::filesystem::path&,
                                const std::vector<std::pair<std::string, Shape>>& shapes, const WeightSource&,
                                const ExportOptions& = {});

/// The files that make transformers read the tokenizer by its rules, into a folder: tokenizer.json with
/// tokenizer_config.json, or tokenizer.model. Ids without a tokenizer give none.
void write_tokenizer_files(const std::filesystem::path& folder, const TokenizerFiles&, const ModelFacts&);

}  // namespace mxtape
