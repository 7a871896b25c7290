#include "program/corpus/corpus.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "core/error.h"
#include "core/parallel.h"
#include "program/corpus/tale.h"

namespace mxtape::tales {
namespace {

/// Ratio estimator of entropy over length per tale. Both means are unbiased; the error is the delta method's
/// (Cochran, Sampling Techniques, 3rd ed., section 2.11): tales are independent.
Estimate entropy_rate(const std::vector<Score>& tales) {
  double nats = 0, characters = 0;
  for (const auto& tale : tales) nats += tale.nats, characters += double(tale.characters);
  const double rate = nats / characters, n = double(tales.size());
  double squares = 0;
  for (const auto& tale : tales) squares += std::pow(tale.nats - rate * double(tale.characters), 2);
  return {rate, n > 1 ? std::sqrt(squares * n / (n - 1)) / characters : std::nan("")};
}

Score sum(const std::vector<Score>& tales, std::size_t first) {
  Score result;
  for (auto tale = tales.begin() + std::ptrdiff_t(first); tale != tales.end(); ++tale) {
    result.nats += tale->nats, result.characters += tale->characters;
    result.tales += tale->tales;
  }
  return result;
}

}  // namespace

const std::string_view alphabet = "\n !\"',.?ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

ScoredTale write_tale(std::uint64_t seed, std::uint32_t tale) {
  Writer writer(seed, tale);
  Tale(writer).tell();
  return {std::move(writer.text()), writer.nats()};
}

Score score(std::string_view text) {
  require(!text.empty(), ExitCode::data, "the text is empty, want at least one tale");
  Score result;
  for (std::size_t position = 0; position < text.size(); ++result.tales) {
    Reader reader(text, position);
    Tale(reader).tell();
    result.nats += reader.nats(), position = reader.position();
  }
  result.characters = std::int64_t(text.size());
  return result;
}

Corpus write_corpus(std::uint64_t seed, CorpusSize size, double validation,
                    const std::function<void(std::int64_t)>& progress) {
  constexpr std::int64_t at_once = 1024, most_tales = std::int64_t{1} << 32;
  if (size.tales == 0) size.tales = most_tales;
  if (size.characters == 0) size.characters = std::numeric_limits<std::int64_t>::max();
  require(size.tales >= 2 && size.tales <= most_tales, ExitCode::usage, "corpus: {} tales, want 2 to 2^32",
          size.tales);

  Corpus corpus;
  std::vector<Score> scores;
  std::vector<ScoredTale> tales;
  const auto wanted = [&] {
    return std::int64_t(scores.size()) < size.tales &&
           (std::int64_t(corpus.text.size()) < size.characters || scores.size() < 2);
  };
  while (wanted()) {
    const auto first = std::int64_t(scores.size());
    tales.assign(std::size_t(std::min(at_once, size.tales - first)), {});
    parallel_for(std::int64_t(tales.size()), 16, [&](std::int64_t begin, std::int64_t end) {
      for (auto i = begin; i < end; ++i) tales[std::size_t(i)] = write_tale(seed, std::uint32_t(first + i));
    });
    for (const auto& tale : tales) {
      if (!wanted()) break;
      corpus.text += tale.text;
      scores.push_back({tale.nats, std::int64_t(tale.text.size()), 1});
    }
    progress(std::int64_t(corpus.text.size()));
  }
  const auto count = double(scores.size());
  const auto held_out = std::clamp(std::size_t(count * validation), std::size_t(1), scores.size() - 1);
  corpus.all = sum(scores, 0), corpus.validation = sum(scores, scores.size() - held_out);
  corpus.train_bytes = corpus.all.characters - corpus.validation.characters;
  corpus.entropy = entropy_rate(scores);
  return corpus;
}

TokenFile to_token_file(const Corpus& corpus, const std::string& source) {
  TokenFile file;
  file.tokenizer = Tokenizer::from_text(Tokenizer::Kind::characters, alphabet);
  file.source = source;
  const std::string_view text = corpus.text;
  const auto split = [&](std::string_view part) {
    return Split::from_tokens(file.tokenizer.encode(part), file.tokenizer.size());
  };
  file.train = split(text.substr(0, std::size_t(corpus.train_bytes)));
  file.validation = split(text.substr(std::size_t(corpus.train_bytes)));
  file.floor = corpus.validation.per_character(), file.entropy = corpus.entropy;
  return file;
}

}  // namespace mxtape::tales
