#include <gtest/gtest.h>

#ifdef MXTAPE_ORACLE
#define ONIG_ESCAPE_REGEX_T_COLLISION  // GoogleTest has the system's regex.h
#define re_registers oniguruma_registers
#include <oniguruma.h>
#undef re_registers

#include <optional>
#include <random>

#include "core/error.h"
#include "data/tokenizers/text/regex.h"
#include "data/tokenizers/text/utf8.h"

namespace mxtape {
namespace {

/// A pattern of what data/tokenizers/text/regex.h names. Some are refused there.
class RandomPattern {
 public:
  explicit RandomPattern(std::mt19937& random) : random_(random) {}
  std::string operator()() { return alternatives(3); }

 private:
  std::size_t below(std::size_t n) { return random_() % n; }
  template <std::size_t N>
  const char* one_of(const char* const (&words)[N]) {
    return words[below(N)];
  }
  std::string alternatives(int depth) {
    std::string text = sequence(depth);
    while (below(3) == 0) text += "|" + sequence(depth);
    return text;
  }
  std::string sequence(int depth) {
    std::string text;
    for (auto n = 1 + below(3); n > 0; --n)
      text += atom(depth) + quantifier() + (below(6) ? "" : quantifier());
    return text;
  }
  std::string quantifier() {
    return one_of({"", "", "", "", "", "?", "*", "+", "?+", "*+", "++", "{2}", "{2}+", "{1,3}", "{1,3}+",
                   "{0,2}", "{,2}", "{1,}", "{2,}+"});
  }
  std::string atom(int depth) {
    switch (below(depth > 0 ? 16 : 9)) {
      case 0:
        return one_of({"\\p{L}", "\\p{N}", "\\P{L}", "\\p{^Lu}", "\\p{M}", "\\p{P}"});
      case 1:
        return one_of({"\\s", "\\S", "\\d", "\\D", "\\n", "\\r", "."});
      case 2:
        return one_of({"[ab]", "[^ab]", "[a-c1]", "[^\\s\\p{L}\\p{N}]", "[\\r\\n]", "[^\\r\\n\\p{L}]",
                       "[b\\-]", "[^\\S]", "[\\D\\d]"});
      case 3:
        return one_of({"(?i:s)", "(?i:k)", "(?i:'s|'re)", "(?i:[ks])"});
      case 4:
        return "$";
      case 9:
        return "(" + alternatives(depth - 1) + ")";
      case 10:
      case 11:
      case 12:
        return "(?:" + alternatives(depth - 1) + ")";
      case 13:
        return "(?=" + alternatives(depth - 1) + ")";
      case 14:
        return "(?!" + alternatives(depth - 1) + ")";
      default:
        return one_of({"a", "b", "c", "1", "'", " ", "\\.", "s"});
    }
  }
  std::mt19937& random_;
};

std::string random_text(std::mt19937& random) {
  // Old ones: the library's Unicode is that of its distribution.
  constexpr std::u32string_view signs =
      U"aaaabbbccc11 ''..\n\r\tsSkK\u017f\u212a\u00a0\u2028\u00e9\u0301\u4e2d\u0661";
  std::string text;
  for (auto n = random() % 12; n > 0; --n) append_utf8(text, signs[random() % signs.size()]);
  return text;
}

TEST(Oniguruma, MatchesWhereTheOwnMatcherDoes) {
  OnigEncoding utf8 = ONIG_ENCODING_UTF8;
  onig_initialize(&utf8, 1);
  std::mt19937 random(11);
  RandomPattern pattern_of(random);
  int opened = 0, matched = 0;
  for (int i = 0; i < 20'000; ++i) {
    const std::string pattern = pattern_of();
    std::optional<Regex> own;
    try {
      own.emplace(pattern);
    } catch (const Error&) {
      continue;  // refused by name: tests/data/tokenizers/words_test.cpp
    }
    const auto* const p = reinterpret_cast<const OnigUChar*>(pattern.data());
    OnigRegex theirs = nullptr;
    OnigErrorInfo why;
    ASSERT_EQ(onig_new(&theirs, p, p + pattern.size(), ONIG_OPTION_NONE, ONIG_ENCODING_UTF8,
                       ONIG_SYNTAX_ONIGURUMA, &why),
              ONIG_NORMAL)
        << pattern;
    ++opened;
    for (int k = 0; k < 20; ++k) {
      const std::string text = random_text(random);
      const auto* const t = reinterpret_cast<const OnigUChar*>(text.data());
      for (std::size_t at = 0; at <= text.size(); ++at) {
        if (at < text.size() && (static_cast<unsigned char>(text[at]) & 0xc0) == 0x80) continue;
        const int length = onig_match(theirs, t, t + text.size(), t + at, nullptr, ONIG_OPTION_NONE);
        if (length < ONIG_MISMATCH) continue;  // too much work for it
        const std::size_t want = length == ONIG_MISMATCH ? Regex::none : at + std::size_t(length);
        matched += want != Regex::none;
        ASSERT_EQ(own->match(text, at), want)
            << "pattern " << shown_text(pattern) << ", text " << shown_text(text) << " at " << at;
      }
    }
    onig_free(theirs);
  }
  EXPECT_GT(opened, 5'000);
  EXPECT_GT(matched, 100'000);
}

}  // namespace
}  // namespace mxtape
#else
TEST(Oniguruma, MatchesWhereTheOwnMatcherDoes) { GTEST_SKIP() << "built without libonig-dev"; }
#endif
