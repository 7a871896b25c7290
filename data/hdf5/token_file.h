#pragma once
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "data/tokenizers/tokenizer.h"

namespace mxtape {

class Hdf5Writer;

/// One split of a corpus as tokens: u16 where the vocabulary allows it.
struct Split {
  static constexpr std::int64_t narrow_vocabulary = 65536;
  std::vector<std::uint16_t> narrow;  ///< vocabularies up to narrow_vocabulary
  std::vector<std::uint32_t> wide;
  std::int64_t unread = 0;  ///< tokens that are counted and never looked at: what a dry run reads

  static Split from_tokens(std::span<const std::int32_t> tokens, std::int64_t vocabulary);
  /// Takes the tokens from `position` on out of this split.
  Split take_from(std::int64_t position);
  std::int64_t count() const { return unread + std::int64_t(narrow.empty() ? wide.size() : narrow.size()); }
  std::int32_t operator[](std::int64_t i) const {
    return std::int32_t(narrow.empty() ? wide[std::size_t(i)] : narrow[std::size_t(i)]);
  }
};

/// A sampled mean.
struct Estimate {
  double value = 0, standard_error = 0;
};

/// A sealed HDF5 token file in memory. Layout and checks: docs/data.md.
struct TokenFile {
  Tokenizer tokenizer;
  std::string source;  ///< where the text came from, for people
  Split train, validation;
  std::string hash;  ///< of tokenizer and both splits, set by read(): what a checkpoint remembers
  /// Exact mean negative log-likelihood of the validation split under its true source [nats per token], where
  /// it is known: docs/corpus.md.
  std::optional<double> floor;
  /// Entropy rate of that source [nats per token].
  std::optional<Estimate> entropy;

  /// Reads and verifies seal, lengths, hashes and token range. Throws Error(data).
  static TokenFile read(const std::filesystem::path&);
  /// Throws Error(internal) for a token outside the vocabulary, Error(resource) as Hdf5Writer::commit.
  /// Returns the hash.
  std::string write(const std::filesystem::path&) const&;
  /// The same in two thirds of the memory: the splits are gone before the file's image is copied.
  std::string write(const std::filesystem::path&) &&;

 private:
  /// Returns the hash.
  std::string fill(Hdf5Writer&) const;
};

}  // namespace mxtape
