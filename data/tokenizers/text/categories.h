#pragma once
#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

namespace mxtape {

// clang-format off
/// General categories of Unicode 16.0, in the order of unicode.txt's letters. Every code point has one.
enum class Category : std::uint8_t {
  Lu, Ll, Lt, Lm, Lo, Mn, Mc, Me, Nd, Nl, No, Pc, Pd, Ps, Pe,
  Pi, Pf, Po, Sm, Sc, Sk, So, Zs, Zl, Zp, Cc, Cf, Cs, Co, Cn
};
// clang-format on

/// A set of categories: bit i is category i.
using CategorySet = std::uint32_t;
/// "L", "Lu", "P" ...; none if there is no such category.
std::optional<CategorySet> categories_named(std::string_view name);

/// What word splitters ask of a code point.
enum CharacterClass : std::uint8_t { other_sign = 0, letter = 1, number = 2, white_space = 4 };

/// Two levels: the page of a code point's upper bits, then one entry for each of its 256 code points.
class CharacterTable {
 public:
  static const CharacterTable& get();  ///< made once, from unicode.txt
  Category category(char32_t c) const { return Category(pages_[page_of_[c >> 8]][c & 0xff] & 31); }
  CharacterClass classify(char32_t c) const {
    return CharacterClass(pages_[page_of_[c >> 8]][c & 0xff] >> 5);
  }

 private:
  CharacterTable();
  static constexpr std::size_t code_points = 0x110000;
  std::array<std::uint16_t, code_points / 256> page_of_{};
  std::array<std::array<std::uint8_t, 256>, 512> pages_{};  // category + class << 5
};

/// The property White_Space: U+0009..D, blanks, line ends; U+0085 and U+00A0 are, U+200B and U+180E are not.
bool is_white_space(char32_t c);

/// unicode.txt, which says how it is read; the build puts it into the library.
extern const std::string_view unicode_tables;

}  // namespace mxtape
