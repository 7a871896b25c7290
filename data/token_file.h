#pragma once
#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/tensor.h"

namespace mxtape {

/// Maps text to tokens and back: one token a character (UTF-8 code point) or a byte.
class Tokenizer {
 public:
  enum class Kind : std::uint8_t { characters, bytes };
  /// characters: the vocabulary is the code points of `text`, sorted. bytes: always 256.
  static Tokenizer from_text(Kind, std::string_view text);
  /// From a token file's or checkpoint's attribute.
  static Tokenizer from_json(const std::string&);
  std::string to_json() const;

  Kind kind() const;
  std::int64_t size() const;
  /// Throws Error(data) with the first character that is not in the vocabulary and its position.
  std::vector<std::int32_t> encode(std::string_view text) const;
  std::string decode(std::span<const std::int32_t> tokens) const;

 private:
  Kind kind_ = Kind::bytes;
  std::vector<std::string> pieces_;  // by token
  std::map<std::string, std::int32_t> token_of_;
};

/// One split of a corpus as tokens. File layout and checks: docs/data.md.
struct Split {
  std::vector<std::uint16_t> narrow;  ///< vocabularies up to 65536
  std::vector<std::uint32_t> wide;
  std::int64_t count() const { return std::int64_t(narrow.empty() ? wide.size() : narrow.size()); }
  std::int32_t operator[](std::int64_t i) const {
    return std::int32_t(narrow.empty() ? wide[std::size_t(i)] : narrow[std::size_t(i)]);
  }
};

/// An HDF5 token file in memory: datasets "train" and "validation", the tokenizer, 64-bit counts, an XXH3-128
/// hash of each split.
struct TokenFile {
  Tokenizer tokenizer;
  std::string source;  ///< where the text came from, for people
  Split train, validation;
  std::string hash;  ///< of both splits: what a checkpoint remembers
  /// Exact mean negative log-likelihood of the validation split under its true source [nats per token], where
  /// it is known.
  std::optional<double> floor;

  /// Reads and verifies length, hash and token range. Throws Error(data).
  static TokenFile read(const std::filesystem::path&);
  void write(const std::filesystem::path&) const;
};

}  // namespace mxtape
