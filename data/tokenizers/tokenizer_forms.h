#pragma once
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "data/tokenizers/tokenizer.h"

namespace mxtape {

/// The text of a tokenizer.json that gives the same ids: characters and bytes are a BPE without merges. ""
/// for ids without a tokenizer and for SentencePiece's models, which are files of their own.
std::string tokenizer_json_of(const Tokenizer&);
/// The way back: characters or bytes whose tokenizer.json is exactly this one; none for every other file.
std::optional<Tokenizer> plain_tokenizer_of(const nlohmann::json& file);

}  // namespace mxtape
