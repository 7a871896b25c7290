#pragma once
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace mxtape {

/// Two tokens in GPT-2's stand-ins for bytes.
using MergePair = std::pair<std::string, std::string>;

/// The lines "left right" of a merges.txt, whose first line may be "#version: ...". Throws Error(data) with
/// the line's number.
std::vector<MergePair> read_merges_text(std::string_view text);

/// The tokenizer.json that a vocab.json and its merges mean: byte-level BPE cut by GPT-2's pattern. Where the
/// vocabulary is null it follows as GPT-2's does: the 256 bytes in GPT-2's order, the merges in order,
/// <|endoftext|>. <|endoftext|> is a special token wherever the vocabulary has it.
nlohmann::json gpt2_tokenizer_json(const nlohmann::json& vocabulary, const std::vector<MergePair>& merges);
/// The same for any known_pattern_named(), from ids by token, merges and added_tokens.
nlohmann::json byte_level_bpe(const std::string& pattern, nlohmann::json ids, nlohmann::json merges,
                              nlohmann::json added);
/// A post_processor that puts one token in front of a text.
nlohmann::json template_with(const std::string& token, std::int64_t id);

}  // namespace mxtape
