#pragma once
#include <array>
#include <filesystem>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "data/tokenizers/tokenizer.h"

namespace mxtape {

/// The tokenizer of a folder as published models have it, or of one of its files. In this order:
/// tokenizer.json; vocab.json and merges.txt, or encoder.json and vocab.bpe, GPT-2's byte-level BPE;
/// tokenizer.model, SentencePiece's; merges.txt or vocab.bpe alone, whose ids follow as GPT-2's do. Throws
/// Error(data) where there is none, or with the file in front of what is wrong with it; without a
/// tokenizer.json also where a folder's other files add tokens, or name another class than GPT-2's.
Tokenizer read_tokenizer(const std::filesystem::path& folder_or_file);

/// What a folder's tokenizer may consist of.
inline constexpr std::array<std::string_view, 10> tokenizer_file_names{"tokenizer.json",
                                                                       "tokenizer.model",
                                                                       "vocab.json",
                                                                       "merges.txt",
                                                                       "encoder.json",
                                                                       "vocab.bpe",
                                                                       "tokenizer_config.json",
                                                                       "special_tokens_map.json",
                                                                       "added_tokens.json",
                                                                       "chat_template.jinja"};
/// The argument and all that may belong to its tokenizer, there or not.
std::vector<std::string> files_of_tokenizer(const std::filesystem::path& folder_or_file);

/// The tokenizer of the text of a tokenizer.json. Throws Error(data) with the name of the file that has it.
Tokenizer tokenizer_of_text(const std::filesystem::path&, const std::function<std::string()>& text);

/// The text of a tokenizer.json that gives the same ids: characters and bytes are a BPE without merges. ""
/// for ids without a tokenizer and for SentencePiece's models, which are files of their own.
std::string tokenizer_json_of(const Tokenizer&);
/// The way back: characters or bytes whose tokenizer.json is exactly this one; none for every other file.
std::optional<Tokenizer> plain_tokenizer_of(const nlohmann::json& file);

}  // namespace mxtape
