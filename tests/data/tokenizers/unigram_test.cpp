// The cuts are those of sentencepiece 0.2.3, of models made of these pieces.
#include "data/tokenizers/sentencepiece/unigram.h"

#include <gtest/gtest.h>

#include <string>

namespace mxtape {
namespace {

using Type = SentencePieceProto::PieceType;

std::vector<std::string> cut(std::vector<SentencePieceProto::Piece> pieces, std::string_view text) {
  SentencePieceProto proto;
  proto.pieces = {{"<unk>", 0, Type::unknown}};
  proto.pieces.insert(proto.pieces.end(), pieces.begin(), pieces.end());
  std::vector<std::string> texts;
  for (const auto& piece : Unigram(proto).best(text)) texts.emplace_back(piece.text);
  return texts;
}

TEST(Unigram, AnUnknownCharacterHasTheLowestScoreLess10AgainstAPieceThatSpansIt) {
  using Texts = std::vector<std::string>;
  EXPECT_EQ(cut({{"a", 6}, {"b", 0}, {"ax", -1}}, "axb"), (Texts{"ax", "b"})) << "6 - 11 < -1";
  EXPECT_EQ(cut({{"a", 12}, {"b", 0}, {"ax", -1}}, "axb"), (Texts{"a", "x", "b"})) << "12 - 11 > -1";
}

TEST(Unigram, AUserDefinedPieceCountsATenthForEachByteButOne) {
  using Texts = std::vector<std::string>;
  const SentencePieceProto::Piece u{"u", 0, Type::user_defined};
  EXPECT_EQ(cut({u, {"a", -8.7523f}, {"aa", -6.8068f}}, "uaaa"), (Texts{"u", "a", "aa"}));
  EXPECT_EQ(cut({u, {"a", -3.0406f}, {"aaa", -4.9635f}}, "uaaaaa"), (Texts{"u", "a", "aaa", "a"}));
}

TEST(Unigram, AUserDefinedPieceWinsInAModelWhoseScoresAreAllBelow0) {
  std::vector<SentencePieceProto::Piece> pieces{{"abc", 0, Type::user_defined}};
  for (const char* text : {"a", "b", "c", "d", "ab", "cd"}) pieces.push_back({text, -1});
  EXPECT_EQ(cut(pieces, "abcd"), (std::vector<std::string>{"abc", "d"}));
}

}  // namespace
}  // namespace mxtape
