#pragma once
#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>

#include "core/files/random_access.h"
#include "data/safetensors/header.h"
#include "data/tokenizers/tokenizer.h"
#include "formats/codec/mx_tensor.h"
#include "interop/hf_names.h"

// GGUF: magic, version, counts of tensors and keys; keys with their values; the tensors' names, extents (the
// innermost first), types and places; from a multiple of 32 on, their bytes. Little-endian. Source:
// ggml-org/ggml, its page on GGUF; the types' blocks: ggml-common.h and ggml-quants.c.
namespace mxtape {

inline constexpr std::string_view gguf_magic = "GGUF";
constexpr std::uint64_t gguf_aligned(std::uint64_t bytes) { return (bytes + 31) / 32 * 32; }
enum class GgufValue : std::uint32_t { u8, i8, u16, i16, u32, i32, f32, boolean, text, array, u64, i64, f64 };

/// A type of numbers: blocks of so many along a row, of so many bytes, scales first. Of four bits number j of
/// a scale's lies in the low half of a byte, j + count / 2 in the high one.
struct GgufType {
  enum Id : std::uint32_t { f32 = 0, f16 = 1, q8_0 = 8, bf16 = 30, mxfp4 = 39, nvfp4 = 40 } id;
  std::string_view name;
  std::size_t numbers, bytes, scales;
  TensorType plain = TensorType::u8;  ///< the same in safetensors, if it has no scales
};
inline constexpr GgufType gguf_types[] = {{GgufType::f32, "F32", 1, 4, 0, TensorType::f32},
                                          {GgufType::f16, "F16", 1, 2, 0, TensorType::f16},
                                          {GgufType::bf16, "BF16", 1, 2, 0, TensorType::bf16},
                                          {GgufType::q8_0, "Q8_0", 32, 34, 1},
                                          {GgufType::mxfp4, "MXFP4", 32, 17, 1},
                                          {GgufType::nvfp4, "NVFP4", 64, 36, 4}};
constexpr const GgufType* gguf_type(std::uint32_t id) {  // the end, if it is none of these
  return std::ranges::find(gguf_types, GgufType::Id(id), &GgufType::id);
}

/// A row of codes in blocks with scales. A scale that the type does not have comes out wrong, and a
/// multiplier stays behind: whoever writes them compares values_of_blocks().
std::string blocks_of_row(const GgufType&, const MxTensor&, std::int64_t row);
std::vector<float> values_of_blocks(const GgufType&, std::string_view blocks);

struct GgufTensor {
  const GgufType* type = nullptr;
  std::vector<std::uint64_t> dims{};   ///< one or two, rows first
  std::uint64_t begin = 0, bytes = 0;  ///< in the file
};

/// A file of version 2 or 3, read as if it were hostile: memory is in proportion to the bytes that are there.
class GgufFile {
 public:
  /// Reads the header. Throws Error(data) with the path for what does not hold together, or is none of these
  /// types. Tensors must follow each other.
  explicit GgufFile(const std::filesystem::path&);
  std::string where() const { return file_.path().string(); }
  const std::map<std::string, GgufTensor>& tensors() const { return tensors_; }
  std::optional<double> number(const std::string& key) const;  ///< none: no such key, or no number
  std::string text(const std::string& key) const;              ///< "", likewise
  /// All its numbers, times `scale`. Throws Error(data) where there is none of that name, or one is not
  /// finite.
  std::vector<float> values(const std::string& name, float scale = 1) const;

 private:
  RandomAccessFile file_;
  std::string header_;
  std::map<std::string, std::pair<GgufValue, std::string_view>> values_;  ///< of arrays nothing
  std::map<std::string, GgufTensor> tensors_;
};

/// "blk.3.attn_q.weight" for a name of interop/hf_names.h.
std::string gguf_name(const std::string& theirs);
/// The row of ours that is row i of a tensor: in GGUF's class "llama" RoPE turns the pairs (2i, 2i + 1) of a
/// head, here (i, i + D/2).
std::int64_t gguf_row(const ModelFacts&, std::string_view name, std::int64_t i);

using GgufKeys = nlohmann::ordered_json;
/// The keys of a model and of its tokenizer; `notes` gets what they cannot say. Throws Error(usage) for what
/// they would say otherwise.
GgufKeys gguf_keys_of(const ModelFacts&, const Tokenizer&, std::vector<std::string>& notes);
/// The config.json that a file's keys come to, for read_hf_config().
nlohmann::json hf_config_of(const GgufFile&);

}  // namespace mxtape
