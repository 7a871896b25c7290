#include "data/tokenizers/tokenizer.h"

#include <algorithm>
#include <charconv>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>

#include "core/error.h"

namespace mxtape {
namespace {

using nlohmann::json;

/// The character at `position` and its length in bytes; length 0 if it is not UTF-8.
/// Source: RFC 3629, section 4; the smallest value of each length excludes overlong forms.
std::pair<char32_t, std::size_t> character_at(std::string_view text, std::size_t position) {
  const auto byte = [&](std::size_t i) { return char32_t(static_cast<unsigned char>(text[i])); };
  const char32_t lead = byte(position);
  if (lead < 0x80) return {lead, 1};
  const std::size_t length = lead >> 5 == 0b110 ? 2 : lead >> 4 == 0b1110 ? 3 : lead >> 3 == 0b11110 ? 4 : 0;
  if (length == 0 || position + length > text.size()) return {0, 0};
  char32_t value = lead & (0xffu >> (length + 1));
  for (std::size_t i = 1; i < length; ++i) {
    if (byte(position + i) >> 6 != 0b10) return {0, 0};
    value = value << 6 | (byte(position + i) & 0x3f);
  }
  constexpr char32_t smallest[] = {0, 0, 0x80, 0x800, 0x10000};
  const bool surrogate = value >= 0xd800 && value < 0xe000;
  return value < smallest[length] || surrogate || value > 0x10ffff ? std::pair(char32_t(0), std::size_t(0))
                                                                   : std::pair(value, length);
}

std::string utf8(char32_t c) {
  const auto tail = [&](int shift) { return char(0x80 | (c >> shift & 0x3f)); };
  if (c < 0x80) return {char(c)};
  if (c < 0x800) return {char(0xc0 | c >> 6), tail(0)};
  if (c < 0x10000) return {char(0xe0 | c >> 12), tail(6), tail(0)};
  return {char(0xf0 | c >> 18), tail(12), tail(6), tail(0)};
}

/// A piece as messages show it: control characters by their number.
std::string shown(const std::string& piece) {
  const auto c = static_cast<unsigned char>(piece[0]);
  return c < 0x20 || c == 0x7f ? fmt::format("U+{:04X}", unsigned(c)) : "'" + piece + "'";
}

std::vector<std::string> all_bytes() {
  std::vector<std::string> pieces;
  for (int b = 0; b < 256; ++b) pieces.emplace_back(1, char(b));
  return pieces;
}

}  // namespace

void for_each_character(std::string_view text, const std::function<void(char32_t, std::size_t)>& body) {
  for (std::size_t position = 0; position < text.size();) {
    const auto [value, length] = character_at(text, position);
    require(length != 0, ExitCode::data, "byte {} (0x{:02x}) is not UTF-8", position,
            static_cast<unsigned char>(text[position]));
    body(value, position);
    position += length;
  }
}

Tokenizer::Tokenizer(Kind kind, std::vector<std::string> pieces) : kind_(kind), pieces_(std::move(pieces)) {
  if (kind_ != Kind::characters) return;
  for (std::size_t token = 0; token < pieces_.size(); ++token) {
    const auto& piece = pieces_[token];
    const auto [value, length] =
        piece.empty() ? std::pair(char32_t(0), std::size_t(0)) : character_at(piece, 0);
    require(length == piece.size() && length > 0, ExitCode::data, "tokenizer: piece {} is not one character",
            token);
    require(token_of_.emplace(value, std::int32_t(token)).second, ExitCode::data,
            "tokenizer: piece {} occurs twice", token);
  }
}

Tokenizer::Tokenizer() : Tokenizer(Kind::bytes, all_bytes()) {}

Tokenizer Tokenizer::of_ids(std::int64_t vocabulary) {
  require(vocabulary >= 1 && vocabulary <= std::numeric_limits<std::int32_t>::max(), ExitCode::data,
          "tokenizer: a vocabulary of {} ids; want 1 to {}", vocabulary,
          std::numeric_limits<std::int32_t>::max());
  Tokenizer made(Kind::ids, {});
  made.ids_ = vocabulary;
  return made;
}

Tokenizer Tokenizer::from_texts(Kind kind, std::span<const std::string_view> texts) {
  require(kind != Kind::ids, "tokenizer: ids cannot be made from a text");
  if (kind == Kind::bytes) return {};
  std::set<char32_t> characters;
  for (const auto text : texts)
    for_each_character(text, [&, last = char32_t(-1)](char32_t c, std::size_t) mutable {
      if (c != last) characters.insert(last = c);
    });
  std::vector<std::string> pieces;
  for (const char32_t c : characters) pieces.push_back(utf8(c));
  return {kind, std::move(pieces)};
}

std::string Tokenizer::text() const {
  const std::string_view kind = kind_ == Kind::bytes ? "byte" : kind_ == Kind::ids ? "id" : "character";
  return fmt::format("{} {}{}", size(), kind, size() == 1 ? "" : "s");
}

std::string Tokenizer::first_difference(const Tokenizer& there) const {
  if (kind_ != Kind::characters || there.kind_ != Kind::characters) return "";
  for (std::size_t token = 0; token < std::min(pieces_.size(), there.pieces_.size()); ++token)
    if (pieces_[token] != there.pieces_[token])
      return fmt::format("token {} is {} there and {} here", token, shown(there.pieces_[token]),
                         shown(pieces_[token]));
  return "";
}

std::string Tokenizer::to_json() const {
  if (kind_ == Kind::bytes) return json{{"kind", "bytes"}}.dump();
  if (kind_ == Kind::ids) return json{{"kind", "ids"}, {"vocabulary", ids_}}.dump();
  return json{{"kind", "characters"}, {"pieces", pieces_}}.dump();
}

Tokenizer Tokenizer::from_json(const std::string& text) {
  try {
    const json value = json::parse(text);
    const auto kind = value.at("kind").get<std::string>();
    if (kind == "bytes") return {};
    if (kind == "ids") {
      const json& vocabulary = value.at("vocabulary");
      require(vocabulary.is_number_integer(), ExitCode::data, "tokenizer: vocabulary {}; want an integer",
              vocabulary.dump());
      return of_ids(vocabulary.get<std::int64_t>());
    }
    require(kind == "characters", ExitCode::data, "tokenizer: kind '{}'; known: bytes characters ids", kind);
    return {Kind::characters, value.at("pieces").get<std::vector<std::string>>()};
  } catch (const json::exception& error) {
    fail(ExitCode::data, "tokenizer: {}", error.what());
  }
}

std::vector<std::int32_t> Tokenizer::encode_ids(std::string_view text) const {
  constexpr std::string_view between = " \t\r\n,";
  std::vector<std::int32_t> tokens;
  while (true) {
    const auto begin = text.find_first_not_of(between);
    if (begin == std::string_view::npos) return tokens;
    text.remove_prefix(begin);
    const auto word = text.substr(0, text.find_first_of(between));
    std::int32_t id = -1;
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), id);
    require(error == std::errc() && end == word.data() + word.size() && id >= 0 && id < size(),
            ExitCode::data, "'{}' is no token id; want numbers from 0 to {} with blanks between", word,
            size() - 1);
    tokens.push_back(id);
    text.remove_prefix(word.size());
  }
}

std::vector<std::int32_t> Tokenizer::encode(std::string_view text) const {
  if (kind_ == Kind::ids) return encode_ids(text);
  std::vector<std::int32_t> tokens;
  tokens.reserve(text.size());
  if (kind_ == Kind::bytes) {
    for (const char c : text) tokens.push_back(static_cast<unsigned char>(c));
    return tokens;
  }
  for_each_character(text, [&](char32_t c, std::size_t position) {
    const auto found = token_of_.find(c);
    require(found != token_of_.end(), ExitCode::data,
            "character '{}' (U+{:04X}) at byte {} is not in the vocabulary of {} characters", utf8(c),
            std::uint32_t(c), position, size());
    tokens.push_back(found->second);
  });
  return tokens;
}

std::string Tokenizer::decode(std::span<const std::int32_t> tokens) const {
  std::string text;
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    require(tokens[i] >= 0 && tokens[i] < size(), ExitCode::data,
            "token {} at position {}; the vocabulary has {}", tokens[i], i, size());
    text += kind_ == Kind::ids ? std::to_string(tokens[i]) + ' ' : pieces_[std::size_t(tokens[i])];
  }
  return text;
}

}  // namespace mxtape
