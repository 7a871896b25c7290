#include "data/tokenizers/text/categories.h"

#include <cstdlib>
#include <map>

#include "core/error.h"
#include "core/text/sections.h"

namespace mxtape {
namespace {

constexpr std::string_view names = "LuLlLtLmLoMnMcMeNdNlNoPcPdPsPePiPfPoSmScSkSoZsZlZpCcCfCsCoCn";

CharacterClass class_of(Category category, char32_t c) {
  if (is_white_space(c)) return white_space;
  if (category <= Category::Lo) return letter;
  return category >= Category::Nd && category <= Category::No ? number : other_sign;
}

}  // namespace

bool is_white_space(char32_t c) {
  return (c >= 0x09 && c <= 0x0d) || c == 0x20 || c == 0x85 || c == 0xa0 || c == 0x1680 ||
         (c >= 0x2000 && c <= 0x200a) || c == 0x2028 || c == 0x2029 || c == 0x202f || c == 0x205f ||
         c == 0x3000;
}

std::optional<CategorySet> categories_named(std::string_view name) {
  CategorySet set = 0;
  for (std::size_t i = 0; i < names.size(); i += 2)
    if (names.substr(i, 2).starts_with(name) && !name.empty()) set |= 1u << (i / 2);
  return set == 0 ? std::nullopt : std::optional(set);
}

CharacterTable::CharacterTable() {
  std::map<std::array<std::uint8_t, 256>, std::uint16_t> known;
  std::array<std::uint8_t, 256> page{};
  char32_t c = 0;
  const std::string_view runs = section_of(unicode_tables, "categories");
  for (const char* at = runs.data(); at < runs.data() + runs.size();) {
    const int code = *at <= 'Z' ? *at - 'A' : *at - 'a' + 26;
    char* after = nullptr;
    const bool counted = at[1] >= '0' && at[1] <= '9';
    const auto length = counted ? std::strtoul(at + 1, &after, 10) : 1;
    at = (counted ? after : at + 1) + 1;  // one blank after each run
    for (std::size_t i = 0; i < length; ++i, ++c) {
      page[c & 0xff] = std::uint8_t(code | class_of(Category(code), c) << 5);
      if ((c & 0xff) != 0xff) continue;
      const auto [entry, fresh] = known.emplace(page, std::uint16_t(known.size()));
      if (fresh) pages_.at(entry->second) = page;
      page_of_[c >> 8] = entry->second;
    }
  }
  require(c == code_points, "unicode.txt: categories of {} code points, want {}", std::uint32_t(c),
          std::size_t(code_points));
}

const CharacterTable& CharacterTable::get() {
  static const CharacterTable table;
  return table;
}

}  // namespace mxtape
