#include <algorithm>
#include <array>

#include "core/error.h"
#include "data/json/json_section.h"
#include "data/tokenizers/bpe/byte_level.h"
#include "data/tokenizers/bpe/gpt2_files.h"
#include "data/tokenizers/bpe/tokenizer_json.h"
#include "data/tokenizers/tokenizer_files.h"
#include "interop/gguf/format.h"
#include "interop/hf_config.h"

namespace mxtape {
namespace {

/// A key, with the architecture's name for {}, and its places in config.json of GPT-2 and of the others; "":
/// none.
constexpr std::array<const char*, 3> config_keys[] = {
    {"{}.vocab_size", "/vocab_size", "/vocab_size"},
    {"{}.context_length", "/n_positions", "/max_position_embeddings"},
    {"{}.embedding_length", "/n_embd", "/hidden_size"},
    {"{}.block_count", "/n_layer", "/num_hidden_layers"},
    {"{}.feed_forward_length", "/n_inner", "/intermediate_size"},
    {"{}.attention.head_count", "/n_head", "/num_attention_heads"},
    {"{}.attention.head_count_kv", "", "/num_key_value_heads"},
    {"{}.attention.key_length", "", "/head_dim"},
    {"{}.attention.value_length", "", "/head_dim"},
    {"{}.rope.dimension_count", "", "/head_dim"},
    {"{}.attention.layer_norm_epsilon", "/layer_norm_epsilon", ""},
    {"{}.attention.layer_norm_rms_epsilon", "", "/rms_norm_eps"},
    {"{}.rope.freq_base", "", "/rope_theta"},
    {"tokenizer.ggml.bos_token_id", "/bos_token_id", "/bos_token_id"},
    {"tokenizer.ggml.eos_token_id", "/eos_token_id", "/eos_token_id"},
    {"tokenizer.ggml.padding_token_id", "/pad_token_id", "/pad_token_id"},
    {"{}.rope.scaling.type", "", "/rope_scaling/rope_type"},
    {"{}.rope.scaling.factor", "", "/rope_scaling/factor"}};

/// Calls take(key, place in config.json) for each that an architecture has.
template <class Take>
void for_each_key(const std::string& architecture, const Take& take) {
  for (const auto& [key, gpt2, llama] : config_keys)
    if (const std::string place = architecture == "gpt2" ? gpt2 : llama; !place.empty())
      take(fmt::format(fmt::runtime(key), architecture), nlohmann::json::json_pointer(place));
}

constexpr int normal = 1, control = 3, user_defined = 4, unused = 5;  // types of tokens
constexpr const char* rules_key = "tokenizer.huggingface.json";

/// GGUF's word for how a text is cut, the pattern, and whether words that are tokens stay whole.
struct Cut {
  std::string_view word;
  const char* pattern;
  bool whole_words = false;
};
constexpr Cut cuts[] = {
    {"gpt-2", "gpt2"}, {"llama-bpe", "llama3", true}, {"dbrx", "llama3"}, {"qwen2", "qwen2"}};

std::string_view word_of(const BpeRules& rules) {
  for (const Cut& cut : cuts) {
    BpeRules same;
    read_pre_tokenizer(pre_tokenizer_of(cut.pattern), "", same);
    if (rules.splitter == same.splitter && rules.ignore_merges == cut.whole_words) return cut.word;
  }
  fail(ExitCode::usage,
       "--to gguf: GGUF has no word for how the tokenizer cuts a text; want as gpt2, llama3 or qwen2");
}

void put_tokenizer(nlohmann::ordered_json& keys, const Tokenizer& tokenizer, std::int64_t rows,
                   std::vector<std::string>& notes) {
  keys["tokenizer.ggml.model"] = "none";
  if (tokenizer.kind() == Tokenizer::Kind::ids) return;
  const std::string file = tokenizer_json_of(tokenizer);
  require(!file.empty(), ExitCode::usage,
          "--to gguf: the tokenizer ({}) is a model of SentencePiece; want another one", tokenizer.text());
  std::vector<std::string> tokens, merges;
  std::vector<int> types(std::size_t(tokenizer.size()), normal);
  std::string_view word = "gpt-2";
  if (tokenizer.kind() == Tokenizer::Kind::subwords) {
    const BpeRules rules = read_tokenizer_json(nlohmann::json::parse(file));
    word = word_of(rules);
    tokens = rules.pieces;
    for (const auto& merge : rules.merges)
      merges.push_back(tokens[std::size_t(merge.left)] + " " + tokens[std::size_t(merge.right)]);
    for (const auto& added : rules.added)
      types[std::size_t(added.id)] = added.special ? control : user_defined;
    if (!rules.normalizer.empty()) notes.push_back("GGUF does not say that the tokenizer normalizes a text");
  } else {
    for (std::int32_t id = 0; id < tokenizer.size(); ++id) {
      const std::string bytes = tokenizer.decode({&id, 1});
      tokens.push_back(to_stand_ins(bytes));
      for (std::size_t n = 1; n < bytes.size(); ++n)  // a character's bytes, one after the other
        merges.push_back(to_stand_ins(bytes.substr(0, n)) + " " + to_stand_ins(bytes.substr(n, 1)));
    }
  }
  types.resize(std::size_t(rows), unused);  // the table's padding
  while (tokens.size() < types.size()) tokens.push_back(fmt::format("[PAD{}]", tokens.size()));
  const auto before = tokenizer.template_before();
  keys.update({{"tokenizer.ggml.model", "gpt2"},
               {"tokenizer.ggml.pre", word},
               {"tokenizer.ggml.tokens", tokens},
               {"tokenizer.ggml.token_type", types},
               {"tokenizer.ggml.merges", merges},
               {"tokenizer.ggml.add_bos_token", before.size() == 1},
               {rules_key, file}});
  if (before.size() == 1) keys["tokenizer.ggml.bos_token_id"] = before[0];
  if (const auto end = tokenizer.special("<|endoftext|>"); end >= 0)
    keys.emplace("tokenizer.ggml.eos_token_id", end);
  if (!keys.contains("tokenizer.ggml.eos_token_id"))
    notes.push_back("no token ends a text: llama.cpp stops at token 11 where a file names none");
}

/// The tokenizer.json of a byte-level BPE that other programs wrote.
nlohmann::json rules_of(const GgufFile& file, const Cut& cut) {
  const auto tokens = file.value("tokenizer.ggml.tokens"), types = file.value("tokenizer.ggml.token_type"),
             begins = file.value("tokenizer.ggml.add_bos_token");
  auto ids = nlohmann::json::object(), added = nlohmann::json::array();
  for (std::size_t id = 0; id < tokens.size(); ++id) {
    ids[tokens[id].get<std::string>()] = id;
    if (types.is_null() || types.at(id) == normal) continue;
    added.push_back({{"id", id}, {"content", tokens[id]}, {"special", types[id] != user_defined}});
  }
  auto rules = byte_level_bpe(cut.pattern, ids, file.value("tokenizer.ggml.merges"), added);
  rules["model"]["ignore_merges"] = cut.whole_words;
  if (begins.is_null() ? cut.whole_words : begins == 1) {  // llama.cpp's default is that of Llama 3
    const auto bos =
        JsonSection(file.keys, "GGUF").integer("tokenizer.ggml.bos_token_id", 0, std::ssize(tokens) - 1);
    rules["post_processor"] = template_with(tokens[std::size_t(bos)], bos);
  }
  return rules;
}

}  // namespace

nlohmann::ordered_json gguf_keys_of(const ModelFacts& m, const Tokenizer& tokenizer,
                                    std::vector<std::string>& notes) {
  require(m.gelu == Gelu::tanh && m.rope_scaling != RopeScaling::llama3, ExitCode::usage,
          "--to gguf: GGUF has no key for {}",
          m.gelu == Gelu::tanh ? "model.rope_scaling = \"llama3\"; want none or linear"
                               : "model.gelu = \"erf\"; want tanh");
  nlohmann::json config = hf_config_of(m, "float32");
  config["n_inner"] = m.mlp_width;
  const std::string name = m.architecture == "mistral" ? "llama" : m.architecture;
  nlohmann::ordered_json keys{{"general.architecture", name}};
  for_each_key(name, [&](const std::string& key, const auto& place) {
    if (config.contains(place) && !config[place].is_null())
      keys[key] = config[place].is_array() ? config[place][0] : config[place];
  });
  if (m.eos.size() > 1)
    notes.push_back(fmt::format("GGUF names one end of text: token {} of {}", m.eos[0], m.eos.size()));
  put_tokenizer(keys, tokenizer, m.vocabulary, notes);
  return keys;
}

nlohmann::json hf_config_of(const GgufFile& file) {
  const std::string name = file.text("general.architecture");
  nlohmann::json config{{"model_type", name},
                        {"tie_word_embeddings", !file.tensors.contains("output.weight")}};
  for_each_key(name, [&](const std::string& key, const auto& place) {
    if (const auto value = file.value(key); !value.is_null()) config[place] = value;
  });
  // Linear where no type is named, as llama.cpp has it; scale_linear is the factor of older files.
  if (const auto old = file.value(name + ".rope.scale_linear"); old > 0)
    config["rope_scaling"].emplace("factor", old);
  if (config.contains("rope_scaling")) config["rope_scaling"].emplace("rope_type", "linear");
  if (file.text(name + ".rope.scaling.type") == "none" || file.value(name + ".rope.scaling.factor") == 0)
    config.erase("rope_scaling");
  config["attention_bias"] = config["mlp_bias"] = file.tensors.contains("blk.0.attn_output.bias");
  const auto table = file.tensors.find("token_embd.weight");
  if (table != file.tensors.end()) config["vocab_size"] = table->second.dims.front();
  return config;
}

std::optional<Tokenizer> tokenizer_of(const GgufFile& file, std::vector<std::string>& notes) {
  const std::string rules = file.text(rules_key), kind = file.text("tokenizer.ggml.model"),
                    word = file.text("tokenizer.ggml.pre");
  const Cut* const cut = std::ranges::find(cuts, word, &Cut::word);
  const bool known = !rules.empty() || (kind == "gpt2" && cut != std::end(cuts));
  if (!known && !kind.empty() && kind != "none")
    notes.push_back(fmt::format("tokenizer '{}' '{}' is not read from GGUF files: the model takes ids",
                                shown_name(kind), shown_name(word)));
  if (!known) return {};
  return tokenizer_of_text(file.file.path(),
                           [&] { return rules.empty() ? rules_of(file, *cut).dump() : rules; });
}

}  // namespace mxtape
