#include <gtest/gtest.h>

#ifdef MXTAPE_ORACLE
#include <utf8proc.h>

#include <cstdlib>
#include <memory>
#include <random>
#include <string>

#include "data/tokenizers/text/categories.h"
#include "data/tokenizers/text/utf8.h"

namespace mxtape {
namespace {

/// Assigned in the library's version of Unicode, and no half of a pair.
bool is_assigned(char32_t c) {
  return utf8proc_category(utf8proc_int32_t(c)) != UTF8PROC_CATEGORY_CN && (c < 0xd800 || c > 0xdfff);
}

std::string their_nfc(const std::string& text) {
  const std::unique_ptr<utf8proc_uint8_t, decltype(&std::free)> made(
      utf8proc_NFC(reinterpret_cast<const utf8proc_uint8_t*>(text.c_str())), std::free);
  return reinterpret_cast<const char*>(made.get());
}

TEST(Utf8proc, KnowsTheSameCategoriesAndNfcOfAllCodePoints) {
  int assigned = 0;
  for (char32_t c = 1; c <= 0x10ffff; ++c) {
    if (!is_assigned(c)) continue;
    ++assigned;
    const std::string text = utf8(c);
    const Category own = CharacterTable::get().category(c);
    const auto theirs = categories_named(utf8proc_category_string(utf8proc_int32_t(c)));
    constexpr char32_t changed_in_16 = 0x1171e;  // of what Unicode 15.0 knew
    if (c != changed_in_16) {
      ASSERT_EQ(theirs, CategorySet{1} << unsigned(own)) << "U+" << std::hex << std::uint32_t(c);
    }
    ASSERT_EQ(to_nfc(text), their_nfc(text)) << "U+" << std::hex << std::uint32_t(c);
  }
  EXPECT_GT(assigned, 280'000);
}

TEST(Utf8proc, ComposesRandomTextsAlike) {
  std::u32string all, marks;
  for (char32_t c = 1; c <= 0x10ffff; ++c) {
    if (!is_assigned(c)) continue;
    const bool combines = utf8proc_get_property(utf8proc_int32_t(c))->combining_class != 0;
    const bool changes = to_nfc(utf8(c)) != utf8(c);
    if (combines || changes) marks += c;
    if (c < 0x3000 || (c >= 0xac00 && c < 0xd7a4) || c > 0x11000) all += c;
  }
  std::mt19937 random(3);
  for (int i = 0; i < 200'000; ++i) {
    std::string text;
    for (auto n = 1 + random() % 8; n > 0; --n)
      append_utf8(text, random() % 3 ? marks[random() % marks.size()] : all[random() % all.size()]);
    ASSERT_EQ(to_nfc(text), their_nfc(text)) << shown_text(text);
  }
}

}  // namespace
}  // namespace mxtape
#else
TEST(Utf8proc, KnowsTheSameCategoriesAndNfcOfAllCodePoints) {
  GTEST_SKIP() << "built without libutf8proc-dev";
}
#endif
