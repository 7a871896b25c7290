#include "data/tokenizers/characters.h"

#include <limits>
#include <nlohmann/json.hpp>
#include <set>

#include "core/error.h"
#include "core/text/number.h"
#include "data/tokenizers/text/utf8.h"

namespace mxtape {

using nlohmann::json;

CharacterTokenizer::CharacterTokenizer(std::vector<std::string> pieces) : pieces_(std::move(pieces)) {
  for (std::size_t token = 0; token < pieces_.size(); ++token) {
    const auto& piece = pieces_[token];
    const Character c = piece.empty() ? Character{} : character_at(piece, 0);
    require(c.length == piece.size() && c.length > 0, ExitCode::data,
            "tokenizer: piece {} is not one character", token);
    require(token_of_.emplace(c.value, std::int32_t(token)).second, ExitCode::data,
            "tokenizer: piece {} occurs twice", token);
  }
}

CharacterTokenizer CharacterTokenizer::of_texts(std::span<const std::string_view> texts) {
  std::set<char32_t> characters;
  for (const auto text : texts)
    for_each_character(text, [&, last = char32_t(-1)](char32_t c, std::size_t) mutable {
      if (c != last) characters.insert(last = c);
    });
  std::vector<std::string> pieces;
  for (const char32_t c : characters) pieces.push_back(utf8(c));
  return CharacterTokenizer(std::move(pieces));
}

std::string CharacterTokenizer::text() const {
  return fmt::format("{} character{}", size(), size() == 1 ? "" : "s");
}
std::string CharacterTokenizer::to_json() const {
  return json{{"kind", "characters"}, {"pieces", pieces_}}.dump();
}

std::vector<std::int32_t> CharacterTokenizer::encode(std::string_view text, SpecialTokens) const {
  std::vector<std::int32_t> tokens;
  tokens.reserve(text.size());
  for_each_character(text, [&](char32_t c, std::size_t position) {
    const auto found = token_of_.find(c);
    require(found != token_of_.end(), ExitCode::data,
            "character '{}' (U+{:04X}) at byte {} is not in the vocabulary of {} characters", utf8(c),
            std::uint32_t(c), position, size());
    tokens.push_back(found->second);
  });
  return tokens;
}

std::string CharacterTokenizer::shown(std::int32_t token) const {
  const std::string& piece = pieces_[std::size_t(token)];
  const auto c = static_cast<unsigned char>(piece[0]);
  return c < 0x20 || c == 0x7f ? fmt::format("U+{:04X}", unsigned(c)) : "'" + piece + "'";
}

std::vector<std::int32_t> ByteTokenizer::encode(std::string_view text, SpecialTokens) const {
  std::vector<std::int32_t> tokens;
  tokens.reserve(text.size());
  for (const char c : text) tokens.push_back(static_cast<unsigned char>(c));
  return tokens;
}
std::string ByteTokenizer::shown(std::int32_t token) const { return fmt::format("0x{:02x}", token); }

IdTokenizer::IdTokenizer(std::int64_t vocabulary) : ids_(vocabulary) {
  constexpr auto most = std::numeric_limits<std::int32_t>::max();
  require(vocabulary >= 1 && vocabulary <= most, ExitCode::data,
          "tokenizer: a vocabulary of {} ids; want 1 to {}", vocabulary, most);
}
std::string IdTokenizer::text() const { return fmt::format("{} id{}", ids_, ids_ == 1 ? "" : "s"); }
std::string IdTokenizer::to_json() const { return json{{"kind", "ids"}, {"vocabulary", ids_}}.dump(); }

std::vector<std::int32_t> IdTokenizer::encode(std::string_view text, SpecialTokens) const {
  constexpr std::string_view between = " \t\r\n,";
  std::vector<std::int32_t> tokens;
  while (true) {
    const auto begin = text.find_first_not_of(between);
    if (begin == std::string_view::npos) return tokens;
    text.remove_prefix(begin);
    const auto word = text.substr(0, text.find_first_of(between));
    const std::int32_t id = number_of<std::int32_t>(word).value_or(-1);
    require(id >= 0 && id < size(), ExitCode::data,
            "'{}' is no token id; want numbers from 0 to {} with blanks between", word, size() - 1);
    tokens.push_back(id);
    text.remove_prefix(word.size());
  }
}

void IdTokenizer::decode(std::int32_t token, DecodeState&, std::string& text) const {
  text += std::to_string(token);
  text += ' ';
}

}  // namespace mxtape
