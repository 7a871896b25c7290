#pragma once
#include <filesystem>

#include "data/tokenizers/tokenizer.h"

namespace mxtape {

/// The tokenizer of a folder as published models have it, or of one of its files. In this order:
/// tokenizer.json; vocab.json and merges.txt, or encoder.json and vocab.bpe, GPT-2's byte-level BPE;
/// tokenizer.model, SentencePiece's; merges.txt or vocab.bpe alone, whose ids follow as GPT-2's do. Throws
/// Error(data) where there is none, or with the file in front of what is wrong with it.
Tokenizer read_tokenizer(const std::filesystem::path& folder_or_file);

}  // namespace mxtape
