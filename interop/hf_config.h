#pragma once
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "interop/model_facts.h"

namespace mxtape {

/// What a config.json says.
struct HfConfig {
  ModelFacts model;
  std::int64_t context = 0;         ///< of the model that is imported
  std::vector<std::string> unread;  ///< keys that mxtape does not know; it computes as if they were not there
  std::vector<std::string> notes;   ///< for people: what is not kept, what was chosen
};

/// Without --context, RoPE's models get at most so many tokens: attention's memory grows with their square.
inline constexpr std::int64_t default_rope_context = 2048;

/// Reads a config of GPT-2, Llama, Mistral, Qwen2 or Qwen3, in the spelling of transformers 4 or 5. `where`
/// is its name in messages. Throws Error(data) with the key for what mxtape does not compute: docs/interop.md
/// has the list. `context`: the first so many tokens; Error(usage) if the model has fewer.
HfConfig read_hf_config(const nlohmann::json&, const std::string& where,
                        std::optional<std::int64_t> context = {});

/// The class of transformers that has the head for language, of a model_type that is known:
/// "GPT2LMHeadModel".
std::string_view language_class_of(std::string_view type);

/// config.json of an exported model, every key in the spellings of transformers 4 and 5. `type`: "float32".
nlohmann::ordered_json hf_config_of(const ModelFacts&, const std::string& type);

}  // namespace mxtape
