#include <fmt/format.h>
#include <gtest/gtest.h>

#include <random>

#include "core/error.h"
#include "core/files/atomic_file.h"
#include "core/text/base64.h"
#include "data/tokenizers/tokenizer.h"
#include "tests/data/tokenizers/sentencepiece_model.h"

namespace mxtape {
namespace {

using namespace test::sentencepiece;
using Ids = std::vector<std::int32_t>;

const std::string mark = "\u2581";

TEST(SentencePiece, BpeMergesByScoreAndKeepsUserDefinedSymbolsWhole) {
  const auto tokenizer = Tokenizer::from_sentencepiece(
      piece("<unk>", 0, 2) + piece("<s>", 0, 3) + piece("<sep>", 0, 4) + piece("ab", -1) + piece("bc", -2) +
      piece("a", -3) + piece("b", -4) + piece("c", -5) + piece(mark, -6) + piece("abc", -7) + trainer(2) +
      normalizer(false, false));
  EXPECT_EQ(tokenizer.encode("abc"), (Ids{9})) << "ab first, then abc";
  EXPECT_EQ(tokenizer.encode("bcc"), (Ids{4, 7}));
  EXPECT_EQ(tokenizer.encode("a<sep>b"), (Ids{5, 2, 6}));
  EXPECT_EQ(tokenizer.encode("xyb <s>"), (Ids{0, 6, 8, 0})) << "one unknown token for a run, and <s> is text";
  EXPECT_EQ(tokenizer.decode(Ids{1, 9, 8, 2, 0}), "abc <sep> \u2047 ");
}

TEST(SentencePiece, APieceWhoseCharactersAreNoPiecesIsStillMerged) {
  const auto tokenizer = Tokenizer::from_sentencepiece(
      piece("<unk>", 0, 2) + piece("xy", -1) + piece("xyz", -2) + trainer(2) + normalizer(false, false));
  EXPECT_EQ(tokenizer.encode("xyz"), (Ids{2}));
  EXPECT_EQ(tokenizer.encode("xyx"), (Ids{1, 0}));
}

TEST(SentencePiece, UnigramTakesTheLargestSum) {
  const auto tokenizer = Tokenizer::from_sentencepiece(
      piece("<unk>", 0, 2) + piece("a", -1) + piece("b", -1) + piece("ab", -1.5f) + piece("aba", -4) +
      piece("<x>", 0, 4) + normalizer(false, false));
  EXPECT_EQ(tokenizer.encode("aba"), (Ids{3, 1})) << "-2.5, not -3 or -4";
  EXPECT_EQ(tokenizer.encode("a<x>zz"), (Ids{1, 5, 0}));
  const auto tied = Tokenizer::from_sentencepiece(piece("<unk>", 0, 2) + piece("a", -1) + piece("b", -1) +
                                                  piece("ab", -2) + normalizer(false, false));
  EXPECT_EQ(tied.encode("ab"), (Ids{3})) << "a later way must be strictly better";
}

TEST(SentencePiece, BlanksAreJoinedTrimmedAndPutInFrontAsTheModelSays) {
  const std::string pieces = piece("<unk>", 0, 2) + piece("a", -1) + piece(mark, -1);
  const auto encode = [&](bool dummy, bool join, const char* text) {
    return Tokenizer::from_sentencepiece(pieces + normalizer(dummy, join)).encode(text);
  };
  EXPECT_EQ(encode(false, false, " a  a "), (Ids{2, 1, 2, 2, 1, 2}));
  EXPECT_EQ(encode(true, false, "a "), (Ids{2, 1, 2}));
  EXPECT_EQ(encode(false, true, "  a   a "), (Ids{1, 2, 1}));
  EXPECT_EQ(encode(true, true, " a"), (Ids{2, 1}));
  EXPECT_EQ(encode(true, true, "  "), Ids{});
}

TEST(SentencePiece, WhatIsBrokenOrNotUnderstoodIsRefusedByName) {
  const std::string unknown = piece("<unk>", 0, 2);
  const auto told = [](const std::string& model) -> std::string {
    try {
      Tokenizer::from_sentencepiece(model);
    } catch (const Error& error) {
      return error.what();
    }
    return "opened";
  };
  const std::pair<std::string, const char*> cases[] = {
      {"", "0 pieces of type UNKNOWN"},
      {unknown + piece("a", 0) + piece("a", 0), "is there twice"},
      {unknown + piece("", 0), "want 1 to 1024 bytes"},
      {unknown + piece("\xff", 0), "want 1 to 1024 bytes of UTF-8"},
      {unknown + piece("a", 0.f / 0.f), "a finite score"},
      {unknown + piece(std::string(2000, 'a'), 0), "want 1 to 1024 bytes"},
      {unknown + piece("a", 0, 5), "UNUSED"},
      {unknown + trainer(3), "model_type = 3"},
      {unknown + text_field(2, number_field(35, 1)), "0 pieces of type BYTE; want 256"},
      {unknown + text_field(3, text_field(2, "abcdefgh")), "precompiled_charsmap"},
      {unknown + text_field(5, text_field(2, "x")), "denormalizer"},
      {unknown.substr(0, unknown.size() - 1), "a field of"},
      {"\x0b", "wire type 3"},
      {std::string(11, '\xff'), "more than 64 bits"}};
  for (const auto& [model, want] : cases)
    EXPECT_NE(told(model).find(want), std::string::npos) << want << ": " << told(model);
}

/// Each byte changed, each truncation: an error or a tokenizer that works.
TEST(SentencePiece, ChangedBytesOfAModelAreNeverACrash) {
  for (const char* name : {"sentencepiece-bpe", "sentencepiece-unigram"}) {
    const std::string model =
        read_whole_text(fmt::format("{}/tests/interop/tokenizers/{}/tokenizer.model", MXTAPE_SOURCE, name));
    std::mt19937 random(2);
    for (std::size_t i = 0; i < model.size(); i += 3) {
      std::string changed = model;
      changed[i] = char(random());
      if (i % 2 == 0) changed.resize(i);
      try {
        const auto tokenizer = Tokenizer::from_sentencepiece(changed);
        tokenizer.decode(tokenizer.encode("\ufb01sh \u3000 \u00fcber <sep> 12"));
      } catch (const Error& error) {
        ASSERT_EQ(error.code(), ExitCode::data) << error.what();
      }
    }
  }
}

TEST(Base64, BytesComeBackAndOtherTextIsRefused) {
  for (const std::string bytes : {"", "f", "fo", "foo", "foob", "fooba", "foobar", "\xff\xfe\x00\x01"})
    EXPECT_EQ(from_base64(to_base64(bytes)), bytes);
  EXPECT_EQ(to_base64("foob"), "Zm9vYg==");
  for (const char* bad : {"Zg", "Zg=a", "Z===", "Zm9*"}) EXPECT_FALSE(from_base64(bad).has_value()) << bad;
}

}  // namespace
}  // namespace mxtape
