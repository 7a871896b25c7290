#include <gtest/gtest.h>

#ifdef MXTAPE_ORACLE
#include <fmt/format.h>
#include <sentencepiece_processor.h>

#include <cmath>
#include <random>
#include <string_view>

#include "core/files/atomic_file.h"
#include "data/tokenizers/text/utf8.h"
#include "data/tokenizers/tokenizer.h"

namespace mxtape {
namespace {

/// Letters that the models know, blanks of all kinds, what NFKC changes, and code points of anywhere.
std::string random_text(std::mt19937& random) {
  constexpr std::u32string_view signs =
      U"eeettaaoinshrdlu   "
      U"\t\n\u00a0\u3000\u2581.,'019\u00e9\u0301\u00bd\uff21\ufb01\u2163\u4e2d\u0661\U0001f600";
  std::string text;
  for (auto n = random() % 40; n > 0; --n) {
    char32_t c = random() % 16 ? signs[random() % signs.size()] : char32_t(1 + random() % 0x2ffff);
    if (c >= 0xd800 && c < 0xe000) c = U'x';
    append_utf8(text, c);
  }
  return text;
}

/// Of all pieces together. Versions up to 0.2.0 add in double and keep a float, later ones add floats, as
/// mxtape does: where two ways to cut are equal, roundings decide.
double score_of(const sentencepiece::SentencePieceProcessor& theirs, const std::vector<int>& ids) {
  double sum = 0;
  for (const int id : ids) sum += theirs.GetScore(id);
  return sum;
}

TEST(SentencePieceLibrary, CutsTextsIntoTheSamePieces) {
  for (const char* name : {"sentencepiece-bpe", "sentencepiece-unigram"}) {
    const std::string model =
        read_whole_text(fmt::format("{}/tests/interop/tokenizers/{}/tokenizer.model", MXTAPE_SOURCE, name));
    sentencepiece::SentencePieceProcessor theirs;
    ASSERT_TRUE(theirs.LoadFromSerializedProto(model).ok()) << name;
    const Tokenizer own = Tokenizer::from_sentencepiece(model);
    std::mt19937 random(9);
    int ties = 0;
    for (int i = 0; i < 20'000; ++i) {
      const std::string text = random_text(random);
      const std::vector<int> want = theirs.EncodeAsIds(text);
      const std::vector<int> ids = own.encode(text);
      if (ids == want) continue;
      ++ties;
      // Each addition of a float rounds by 2^-24 of the sum at most, in either way.
      const double best = score_of(theirs, want);
      ASSERT_NEAR(score_of(theirs, ids), best, double(want.size()) * std::abs(best) * 0x1p-23)
          << name << ": " << shown_text(text);
      ASSERT_EQ(own.decode(ids), own.decode(want)) << name << ": " << shown_text(text);
    }
    EXPECT_LE(ties, std::string_view(name) == "sentencepiece-bpe" ? 0 : 1'000) << name;
  }
}

}  // namespace
}  // namespace mxtape
#else
TEST(SentencePieceLibrary, CutsTextsIntoTheSamePieces) {
  GTEST_SKIP() << "built without libsentencepiece-dev";
}
#endif
