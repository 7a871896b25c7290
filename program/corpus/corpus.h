#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "data/hdf5/token_file.h"

namespace mxtape::tales {

/// The text of a tale and -ln of its probability under the grammar.
struct ScoredTale {
  std::string text;
  double nats = 0;
};

/// Tale number `tale` of seed `seed`: independent draws from the same grammar.
ScoredTale write_tale(std::uint64_t seed, std::uint32_t tale);

struct Score {
  double nats = 0;
  std::int64_t characters = 0, tales = 0;
  double per_character() const { return nats / double(characters); }
};

/// Scores whole tales from the text alone. Throws Error(data) at the first character that the grammar cannot
/// produce.
Score score(std::string_view text);

/// The 60 characters that tales can hold, whatever the seed and length: models of one corpus fit any other.
extern const std::string_view alphabet;

struct CorpusSize {
  std::int64_t tales = 0;       ///< 0: as many as `characters` needs
  std::int64_t characters = 0;  ///< 0: no limit; generation stops after the tale that reaches it
};

struct Corpus {
  std::string text;
  Score all;
  std::int64_t train_bytes = 0;  ///< the validation split begins here, with a tale
  Score validation;
  Estimate entropy;  ///< nats per character of the source, from all tales
};

/// Tales 0, 1, ... of a seed; the last `validation` share of them, at least one, is the validation split.
/// `progress` is told the characters done after each thousand tales or so.
Corpus write_corpus(std::uint64_t seed, CorpusSize, double validation,
                    const std::function<void(std::int64_t characters)>& progress);

TokenFile to_token_file(const Corpus&, const std::string& source);

}  // namespace mxtape::tales
