#include <gtest/gtest.h>

#include <algorithm>

#include "data/tokenizers/text/categories.h"
#include "data/tokenizers/text/utf8.h"

namespace mxtape {
namespace {

TEST(Unicode, CategoriesOfUnicode16AreKnown) {
  const CharacterTable& table = CharacterTable::get();
  EXPECT_EQ(table.category(U'A'), Category::Lu);
  EXPECT_EQ(table.category(U'\u02b0'), Category::Lm);
  EXPECT_EQ(table.category(0x1c89), Category::Lu) << "new in Unicode 16";
  EXPECT_EQ(table.category(0x378), Category::Cn);
  EXPECT_EQ(table.category(0x10ffff), Category::Cn);
  EXPECT_EQ(table.classify(U'\u4e2d'), letter);
  EXPECT_EQ(table.classify(U'\u2163'), number) << "a Roman numeral";
  EXPECT_EQ(table.classify(0x301), other_sign) << "a mark";
  for (const char32_t c : {0x09, 0x0d, 0x20, 0x85, 0xa0, 0x2028, 0x3000})
    EXPECT_EQ(table.classify(c), white_space);
  for (const char32_t c : {0x1c, 0x200b, 0x180e, 0xfeff})
    EXPECT_EQ(table.classify(c), other_sign) << std::uint32_t(c);
}

/// Examples of Unicode Standard Annex 15 and of its test file.
TEST(Unicode, NfcComposesAndOrdersMarks) {
  const std::pair<const char*, const char*> cases[] = {
      {"plain text", "plain text"},
      {"cafe\u0301s", "caf\u00e9s"},
      {"\u212b", "\u00c5"},        // the Angstrom sign: a singleton
      {"\u0958", "\u0915\u093c"},  // excluded from composition
      {"a\u0323\u0307", "\u1ea1\u0307"},
      {"d\u0307\u0323", "\u1e0d\u0307"},  // in canonical order before it is composed
      {"\u1e0b\u0323", "\u1e0d\u0307"},
      {"\u1112\u1161\u11ab", "\ud55c"},  // Hangul
      {"\u1112\u1161 \u11ab", "\ud558 \u11ab"},
      {"\uac00\u11a7", "\uac00\u11a7"},    // U+11A7 is no final consonant
      {"e\u0305\u0301", "e\u0305\u0301"},  // a mark of the same class stands between
      {"\u0301", "\u0301"},
      {"x\u0301\u0301e\u0301", "x\u0301\u0301\u00e9"},
      {"a\u0315\u0300\u05ae\u0300b", "\u00e0\u05ae\u0300\u0315b"},
      {"\u0344", "\u0308\u0301"}};
  for (const auto& [text, want] : cases) EXPECT_EQ(to_nfc(text), want) << text;
}

TEST(Unicode, NfcOfNfcIsTheSame) {
  std::string text;
  for (char32_t c = 1; c < 0x30000; c += 7)
    if (c < 0xd800 || c >= 0xe000) append_utf8(text, c);
  EXPECT_EQ(to_nfc(to_nfc(text)), to_nfc(text));
}

TEST(Utf8, TheFirstBadByteIsFoundBehindLongAscii) {
  const std::string ascii(37, 'x');
  EXPECT_EQ(first_bad_byte(ascii), ascii.size());
  for (const std::string bad : {"\x80", "\xc3", "\xc0\x80", "\xed\xa0\x80", "\xf4\x90\x80\x80"})
    EXPECT_EQ(first_bad_byte(ascii + bad + ascii), ascii.size()) << bad.size();
}

TEST(Utf8, OnlyWhatMoreBytesCanCompleteIsUnfinished) {
  const std::string grin = "\xf0\x9f\x98\x80";
  for (std::size_t n = 1; n < 4; ++n) EXPECT_EQ(unfinished_bytes(std::string("a").append(grin, 0, n)), n);
  for (const char* done :
       {"", "a", "\xf0\x9f\x98\x80", "\x80", "\xc3\x28", "\xed\xa0", "\xf5", "\xc0", "\xe0\x80", "\xf4\x90"})
    EXPECT_EQ(unfinished_bytes(done), 0u) << done;
}

}  // namespace
}  // namespace mxtape
