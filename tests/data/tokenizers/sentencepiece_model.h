#pragma once
#include <cstdint>
#include <cstring>
#include <map>
#include <string>
#include <vector>

/// Models of SentencePiece written by hand, field by field.
namespace mxtape::test::sentencepiece {

inline std::string varint(std::uint64_t value) {
  std::string bytes;
  for (; value >= 0x80; value >>= 7) bytes += char(0x80 | (value & 0x7f));
  return bytes + char(value);
}
inline std::string number_field(int field, std::uint64_t value) {
  return varint(std::uint64_t(field) << 3) + varint(value);
}
inline std::string text_field(int field, const std::string& text) {
  return varint(std::uint64_t(field) << 3 | 2) + varint(text.size()) + text;
}
inline std::string piece(const std::string& text, float score, int type = 1) {
  std::string bits(4, '\0');
  std::memcpy(bits.data(), &score, 4);
  return text_field(1,
                    text_field(1, text) + varint(2 << 3 | 5) + bits + number_field(3, std::uint64_t(type)));
}
inline std::string trainer(int model_type) {
  return text_field(2, number_field(3, std::uint64_t(model_type)));
}
inline std::string normalizer(bool dummy_prefix, bool join_blanks) {
  return text_field(3, number_field(3, dummy_prefix) + number_field(4, join_blanks));
}

struct Rule {
  std::string from, to;
  std::uint32_t into = 0;  // the rule points so many bytes behind the beginning of `to`
};

/// A precompiled_charsmap with these rules: a double array with a block of 256 units for each beginning of a
/// rule, and the texts behind it.
inline std::string charsmap(const std::vector<Rule>& rules) {
  std::map<std::string, std::uint32_t> blocks{{"", 256}};  // unit 0 is the root
  for (const Rule& rule : rules)
    for (std::size_t length = 1; length <= rule.from.size(); ++length)
      blocks.emplace(rule.from.substr(0, length), std::uint32_t(256 + 256 * blocks.size()));
  std::vector<std::uint32_t> units(256 + 256 * blocks.size());
  units[0] = blocks.at("") << 10;
  for (const auto& [begin, block] : blocks) {
    if (begin.empty()) continue;
    const auto byte = static_cast<unsigned char>(begin.back());
    const std::uint32_t at = blocks.at(begin.substr(0, begin.size() - 1)) + byte;
    units[at] = byte | (at ^ block) << 10;
  }
  std::string texts;
  for (const Rule& rule : rules) {
    const std::uint32_t above = blocks.at(rule.from.substr(0, rule.from.size() - 1));
    units[above + static_cast<unsigned char>(rule.from.back())] |= 0x100;  // a leaf
    units[blocks.at(rule.from)] = std::uint32_t(texts.size()) + rule.into;
    texts += rule.to + '\0';
  }
  const auto size = std::uint32_t(units.size() * sizeof(std::uint32_t));
  std::string bytes(sizeof size + size, '\0');
  std::memcpy(bytes.data(), &size, sizeof size);
  std::memcpy(bytes.data() + sizeof size, units.data(), size);
  return bytes + texts;
}

}  // namespace mxtape::test::sentencepiece
