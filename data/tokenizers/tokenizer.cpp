#include "data/tokenizers/tokenizer.h"

#include <algorithm>

#include "core/files/in_file.h"
#include "core/text/base64.h"
#include "data/content_hash.h"
#include "data/json/json_file.h"
#include "data/json/json_section.h"
#include "data/tokenizers/bpe/bpe_tokenizer.h"
#include "data/tokenizers/characters.h"
#include "data/tokenizers/sentencepiece/sentencepiece_tokenizer.h"

namespace mxtape {
namespace {

using nlohmann::json;
using Kind = Tokenizer::Kind;
using Held = std::shared_ptr<const TokenizerKind>;

Held characters_of(JsonSection& file) {
  std::vector<std::string> pieces;
  for (const json& piece : file.array("pieces")) {
    if (!piece.is_string()) file.wrong("pieces", piece, "texts");
    pieces.push_back(piece.get<std::string>());
  }
  return std::make_shared<CharacterTokenizer>(std::move(pieces));
}
Held bytes_of(JsonSection&) { return std::make_shared<ByteTokenizer>(); }
Held ids_of(JsonSection& file) { return std::make_shared<IdTokenizer>(file.integer("vocabulary", 1)); }
Held bpe_of(JsonSection& file) { return std::make_shared<BpeTokenizer>(file.at("file")); }
Held sentencepiece_of(JsonSection& file) {
  auto model = from_base64(file.text("model"));
  require(model.has_value(), ExitCode::data, "tokenizer: its model is no base64");
  return std::make_shared<SentencePieceTokenizer>(std::move(*model));
}

/// The kinds, by the name that files have for them.
struct KindRow {
  std::string_view name;
  Kind kind;
  Held (*from_json)(JsonSection&);
};
constexpr KindRow kinds[] = {{"bytes", Kind::bytes, bytes_of},
                             {"characters", Kind::characters, characters_of},
                             {"ids", Kind::ids, ids_of},
                             {"tokenizer.json", Kind::subwords, bpe_of},
                             {"sentencepiece", Kind::subwords, sentencepiece_of}};

}  // namespace

Tokenizer::Tokenizer() : Tokenizer(Kind::bytes, std::make_shared<ByteTokenizer>()) {}

Tokenizer Tokenizer::of_ids(std::int64_t vocabulary) {
  return {Kind::ids, std::make_shared<IdTokenizer>(vocabulary)};
}

Tokenizer Tokenizer::from_texts(Kind kind, std::span<const std::string_view> texts) {
  require(kind == Kind::characters || kind == Kind::bytes,
          "tokenizer: only characters and bytes are made from a text");
  if (kind == Kind::bytes) return {};
  return {kind, std::make_shared<CharacterTokenizer>(CharacterTokenizer::of_texts(texts))};
}

Tokenizer Tokenizer::from_tokenizer_json(std::string_view text) {
  return {Kind::subwords, std::make_shared<BpeTokenizer>(parse_json_strictly(text))};
}
Tokenizer Tokenizer::from_sentencepiece(std::string model) {
  return {Kind::subwords, std::make_shared<SentencePieceTokenizer>(std::move(model))};
}

std::string Tokenizer::hash() const {
  const std::string text = to_json();
  return content_hash(std::as_bytes(std::span(text)));
}

std::string Tokenizer::first_difference(const Tokenizer& there) const {
  const auto has_pieces = [](Kind kind) { return kind == Kind::characters || kind == Kind::subwords; };
  if (!has_pieces(kind_) || there.kind_ != kind_) return "";
  for (std::int32_t token = 0; token < std::min(size(), there.size()); ++token) {
    const auto here = held_->shown(token), other = there.held_->shown(token);
    if (here != other) return fmt::format("token {} is {} there and {} here", token, other, here);
  }
  return "";
}

Tokenizer Tokenizer::from_json(const std::string& text) {
  constexpr int deepest = 20;  // around a tokenizer.json, which has a limit of its own
  const json value = at_place("tokenizer", [&] { return parse_json_strictly(text, deepest); });
  JsonSection file(value, "tokenizer", ": ");
  std::string known;
  for (const KindRow& row : kinds) {
    if (row.name == file.text("kind")) return {row.kind, row.from_json(file)};
    known.append(known.empty() ? "" : " ").append(row.name);
  }
  file.refuse("kind", known);
}

std::string Tokenizer::decode(std::span<const std::int32_t> tokens) const {
  std::string text;
  DecodeState state;
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    require(tokens[i] >= 0 && tokens[i] < size(), ExitCode::data,
            "token {} at position {}; the vocabulary has {}", tokens[i], i, size());
    held_->decode(tokens[i], state, text);
  }
  return text;
}

void Tokenizer::decode(std::int32_t token, DecodeState& state, std::string& text) const {
  require(token >= 0 && token < size(), ExitCode::data, "token {}; the vocabulary has {}", token, size());
  held_->decode(token, state, text);
}

}  // namespace mxtape
