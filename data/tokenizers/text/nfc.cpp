
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <unordered_map>
#include <vector>

#include "core/text/sections.h"
#include "data/tokenizers/text/categories.h"
#include "data/tokenizers/text/utf8.h"

namespace mxtape {
namespace {

constexpr char32_t hangul = 0xac00, hangul_l = 0x1100, hangul_v = 0x1161, hangul_t = 0x11a7;
constexpr char32_t l_count = 19, v_count = 21, t_count = 28, hangul_count = l_count * v_count * t_count;
/// Below it no character decomposes into what composes otherwise, and none is a mark: such texts are NFC.
constexpr char32_t first_mark = 0x300;

struct Pair {
  char32_t first, second;  // second 0: a single character
};

struct Tables {
  std::unordered_map<char32_t, Pair> decomposition;
  std::unordered_map<std::uint64_t, char32_t> composition;
  std::unordered_map<char32_t, std::uint8_t> combining;  // classes other than 0

  Tables() {
    const std::string_view runs = section_of(unicode_tables, "combining"),
                           pairs = section_of(unicode_tables, "decompositions");
    char* at = const_cast<char*>(runs.data());
    for (char32_t c = 0; at < runs.data() + runs.size(); ++at) {
      const auto value = std::strtoul(at, &at, 10), length = std::strtoul(at + 1, &at, 10);
      for (std::size_t i = 0; i < length; ++i, ++c)
        if (value != 0) combining[c] = std::uint8_t(value);
    }
    at = const_cast<char*>(pairs.data());
    for (char32_t c = 0; at < pairs.data() + pairs.size(); ++at) {
      const bool never_composed = *at == '-';
      c += char32_t(std::strtoul(at + never_composed, &at, 16));
      Pair pair{char32_t(std::strtoul(at + 1, &at, 16)), 0};
      if (*at == '+') pair.second = char32_t(std::strtoul(at + 1, &at, 16));
      decomposition[c] = pair;
      if (!never_composed) composition[std::uint64_t(pair.first) << 32 | pair.second] = c;
    }
  }
};

const Tables& tables() {
  static const Tables made;
  return made;
}

struct Marked {
  char32_t value;
  std::uint8_t combining;
};

void decompose(const Tables& t, char32_t c, std::vector<Marked>& out) {
  if (c >= hangul && c < hangul + hangul_count) {
    const char32_t index = c - hangul;
    out.push_back({hangul_l + index / (v_count * t_count), 0});
    out.push_back({hangul_v + index % (v_count * t_count) / t_count, 0});
    if (index % t_count) out.push_back({hangul_t + index % t_count, 0});
    return;
  }
  if (const auto found = t.decomposition.find(c); found != t.decomposition.end()) {
    decompose(t, found->second.first, out);
    if (found->second.second) decompose(t, found->second.second, out);
    return;
  }
  const auto found = t.combining.find(c);
  out.push_back({c, found == t.combining.end() ? std::uint8_t(0) : found->second});
}

/// What the two compose to, or 0.
char32_t composed(const Tables& t, char32_t a, char32_t b) {
  if (a >= hangul_l && a < hangul_l + l_count && b >= hangul_v && b < hangul_v + v_count)
    return hangul + ((a - hangul_l) * v_count + (b - hangul_v)) * t_count;
  const bool open_syllable = a >= hangul && a < hangul + hangul_count && (a - hangul) % t_count == 0;
  if (open_syllable && b > hangul_t && b < hangul_t + t_count) return a + (b - hangul_t);
  const auto found = t.composition.find(std::uint64_t(a) << 32 | b);
  return found == t.composition.end() ? 0 : found->second;
}

void compose(const Tables& t, std::vector<Marked>& text) {
  std::size_t starter = text.size(), kept = 0;
  int last = -1;  // the class of the last mark that stayed between the starter and here; -1: none stayed
  for (const Marked m : text) {
    if (starter < kept && last < int(m.combining)) {
      if (const char32_t whole = composed(t, text[starter].value, m.value)) {
        text[starter].value = whole;
        continue;
      }
    }
    if (m.combining == 0) {
      starter = kept;
      last = -1;
    } else {
      last = m.combining;
    }
    text[kept++] = m;
  }
  text.resize(kept);
}

}  // namespace

std::string to_nfc(std::string_view text) {
  const Tables& t = tables();
  std::string result;
  result.reserve(text.size());
  std::vector<Marked> part;
  for (std::size_t at = 0; at < text.size();) {
    // What is plain and not followed by a mark stays as it is.
    std::size_t plain = at;
    while (plain < text.size()) {
      const Character c = known_character_at(text.data() + plain);
      if (c.value >= first_mark) break;
      plain += c.length;
    }
    if (plain < text.size() && plain > at) plain = at + last_character(text.substr(at, plain - at));
    result += text.substr(at, plain - at);
    at = plain;
    if (at == text.size()) break;
    // Up to the next two plain characters in a row: the first of them may be changed by what is before it.
    part.clear();
    bool plain_before = false;
    for (std::size_t count = 0; at < text.size(); ++count) {
      const Character c = known_character_at(text.data() + at);
      const bool is_plain = c.value < first_mark;
      if (count > 1 && is_plain && plain_before) break;
      decompose(t, c.value, part);
      plain_before = is_plain;
      at += c.length;
    }
    for (auto begin = part.begin(); begin != part.end();) {
      const auto end = std::find_if(begin + 1, part.end(), [](const Marked& m) { return m.combining == 0; });
      const auto marks = begin->combining == 0 ? begin + 1 : begin;
      std::ranges::stable_sort(marks, end, {}, &Marked::combining);
      begin = end;
    }
    compose(t, part);
    for (const Marked& m : part) append_utf8(result, m.value);
  }
  return result;
}

}  // namespace mxtape
