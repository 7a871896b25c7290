#pragma once
#include <filesystem>
#include <optional>
#include <string>

#include "data/hdf5/split.h"
#include "data/tokenizers/tokenizer.h"

namespace mxtape {

/// A sampled mean.
struct Estimate {
  double value = 0, standard_error = 0;
};

/// A sealed HDF5 token file. Layout and checks: docs/data.md.
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

  /// Opens a file; its tokens stay there, and it stays open (data/hdf5/split.h). Verifies seal, lengths,
  /// hashes and token range, unless data/hdf5/hash_record.h knows that this was done. Throws Error(data).
  /// `seal`: whether it was verified just now.
  enum class SealIs : bool { unknown, verified };
  static TokenFile read(const std::filesystem::path&, SealIs seal = SealIs::unknown);
  /// Throws Error(internal) for a token outside the vocabulary, Error(resource) as Hdf5Writer::commit.
  /// Returns the hash. The splits are gone while the file is written.
  std::string write(const std::filesystem::path&) &&;
};

}  // namespace mxtape
