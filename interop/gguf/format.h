#pragma once
#include <map>
#include <nlohmann/json.hpp>

#include "core/files/random_access.h"
#include "data/safetensors/header.h"
#include "data/tokenizers/tokenizer.h"
#include "formats/codec/block_codec.h"
#include "formats/codec/mx_tensor.h"
#include "interop/model_facts.h"

// GGUF: magic, version, counts of tensors and keys; keys with their values; the tensors' names, extents (the
// innermost first), types and places; from a multiple of 32 on, their bytes. Little-endian. Source:
// ggml-org/ggml, its page on GGUF; the types' blocks: ggml-common.h and ggml-quants.c.
namespace mxtape {

inline constexpr std::string_view gguf_magic = "GGUF";
constexpr std::uint64_t gguf_aligned(std::uint64_t bytes) { return (bytes + 31) / 32 * 32; }
enum class GgufValue : std::uint32_t { u8, i8, u16, i16, u32, i32, f32, boolean, text, array, u64, i64, f64 };

/// Q8_0's scales are FP16 and its numbers whole: by 64 less and by 64 more than those of int8.
constexpr Quantizer q8_0_blocks() {
  Quantizer q = nv(int8, 32);
  return q.scale_format = f16, q;
}

/// A type of numbers: blocks of so many along a row, their scales first. Of four bits number j of a scale's
/// lies in the low half of a byte, j + count / 2 in the high one.
struct GgufType {
  enum Id : std::uint32_t { f32 = 0, f16 = 1, q8_0 = 8, bf16 = 30, mxfp4 = 39, nvfp4 = 40 } id;
  std::string_view name;
  Quantizer quantizer;
  std::size_t numbers = 1, scales = 0;
  TensorType plain = TensorType::u8;  ///< the same in safetensors, if it has no scales
  float unit = 1;                     ///< scale of the file / scale of the quantizer

  std::size_t codes_at() const { return scales * std::size_t(scale_bytes(quantizer)); }
  std::size_t bytes() const { return codes_at() + numbers * std::size_t(quantizer.element.bits()) / 8; }
};
/// Of those that hold some numbers exactly the first one is taken.
inline constexpr GgufType gguf_types[] = {
    {GgufType::mxfp4, "MXFP4", mxfp4, 32, 1},
    {GgufType::nvfp4, "NVFP4", nvfp4, 64, 4},
    {GgufType::q8_0, "Q8_0", q8_0_blocks(), 32, 1, TensorType::u8, 1.0f / 64},
    {GgufType::bf16, "BF16", bf16_cast, 1, 0, TensorType::bf16},
    {GgufType::f16, "F16", plain_cast(f16), 1, 0, TensorType::f16},
    {GgufType::f32, "F32", f32_passthrough, 1, 0, TensorType::f32}};

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
struct GgufFile {
  /// Reads the header. Throws Error(data) with the path for what does not hold together, or is none of these
  /// types. Tensors must follow each other.
  explicit GgufFile(const std::filesystem::path&);
  /// Null: there is no such key. Arrays of numbers below four bytes are empty: no key that is read has one.
  nlohmann::json value(const std::string& key) const { return keys.value(key, nlohmann::json()); }
  std::string text(const std::string& key) const;  ///< "" if it is none
  /// Of a tensor that is there, times its scale_of_tensor(). Throws Error(data) where one is not finite.
  std::vector<float> values(const std::string& name) const;

  RandomAccessFile file;
  nlohmann::json keys = nlohmann::json::object();
  std::map<std::string, GgufTensor> tensors;
};

/// NVFP4's multiplier: "blk.3.attn_q.scale" of "blk.3.attn_q.weight".
inline std::string scale_of_tensor(const std::string& name) {
  return name.substr(0, name.rfind('.')) + ".scale";
}
/// The keys of a model and its tokenizer; `notes` gets what they cannot say. Error(usage): they would be
/// wrong.
nlohmann::ordered_json gguf_keys_of(const ModelFacts&, const Tokenizer&, std::vector<std::string>& notes);
/// The config.json that a file's keys come to, for read_hf_config().
nlohmann::json hf_config_of(const GgufFile&);
/// The tokenizer of its keys; none, with a note: one that is not read. Throws Error(data) for what is broken.
std::optional<Tokenizer> tokenizer_of(const GgufFile&, std::vector<std::string>& notes);

}  // namespace mxtape
