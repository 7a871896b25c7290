#include "data/tokenizers/tokenizer_forms.h"

#include <nlohmann/json.hpp>

#include "core/error.h"
#include "data/tokenizers/bpe/bpe_file.h"
#include "data/tokenizers/bpe/byte_level.h"

namespace mxtape {
namespace {

using Json = nlohmann::json;  // an ordered one looks a key up among all: vocabularies have 50,000

/// A BPE without merges: every symbol is a token.
Json without_merges(Json vocabulary, Json pre_tokenizer, Json decoder) {
  return bpe_file<Json>(std::move(vocabulary), Json::array(), Json::array(), nullptr,
                        std::move(pre_tokenizer), std::move(decoder));
}

/// No token has this text, so the tokenizers library throws, with it, where it meets another character.
/// Without an unk_token it would leave the character out.
constexpr const char* unknown_character = "<a character that this model does not know>";

Json file_of_characters(const Json& pieces) {
  Json vocabulary = Json::object();
  for (std::size_t id = 0; id < pieces.size(); ++id) vocabulary[pieces[id].get<std::string>()] = id;
  Json file = without_merges(std::move(vocabulary), nullptr, {{"type", "Fuse"}});
  file["model"]["unk_token"] = unknown_character;
  return file;
}

Json file_of_bytes() {
  Json vocabulary = Json::object();
  for (int byte = 0; byte < 256; ++byte) vocabulary[to_stand_ins(std::string(1, char(byte)))] = byte;
  const Json byte_level{
      {"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}, {"use_regex", false}};
  return without_merges(std::move(vocabulary), byte_level, byte_level);
}

/// A file that was kept, in the words that the tokenizers library asks for.
Json for_other_readers(Json file) {
  for (const char* const key : {"truncation", "padding"}) file.emplace(key, nullptr);
  return file;
}

}  // namespace

std::string tokenizer_json_of(const Tokenizer& tokenizer) {
  const Json held = Json::parse(tokenizer.to_json());
  const auto kind = held.at("kind").get<std::string>();
  if (kind == "characters") return file_of_characters(held.at("pieces")).dump(2);
  if (kind == "bytes") return file_of_bytes().dump(2);
  if (kind == "tokenizer.json") return for_other_readers(held.at("file")).dump(2);
  return "";
}

std::optional<Tokenizer> plain_tokenizer_of(const nlohmann::json& file) {
  const auto model = file.find("model");
  if (model == file.end() || !model->is_object() || !model->value("merges", nlohmann::json()).is_array() ||
      !model->value("merges", nlohmann::json()).empty() ||
      !model->value("vocab", nlohmann::json()).is_object())
    return {};
  const auto same = [&](const Tokenizer& tokenizer) {
    auto ours = nlohmann::json::parse(tokenizer_json_of(tokenizer));
    // Files may leave unknown characters out: here they are an error in any case.
    if (model->value("unk_token", nlohmann::json()).is_null()) ours["model"]["unk_token"] = nullptr;
    return ours == file;
  };
  if (const Tokenizer bytes; same(bytes)) return bytes;
  const auto& vocabulary = (*model)["vocab"];
  nlohmann::json pieces = nlohmann::json::array();
  for (std::size_t i = 0; i < vocabulary.size(); ++i) pieces.push_back("");
  for (const auto& [piece, id] : vocabulary.items()) {
    if (!id.is_number_unsigned() || id.get<std::uint64_t>() >= pieces.size()) return {};
    pieces[id.get<std::size_t>()] = piece;
  }
  try {
    const Tokenizer characters =
        Tokenizer::from_json(nlohmann::json{{"kind", "characters"}, {"pieces", pieces}}.dump());
    return same(characters) ? std::optional(characters) : std::nullopt;
  } catch (const Error&) {  // pieces of several characters
    return {};
  }
}

}  // namespace mxtape
