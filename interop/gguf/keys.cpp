#include <cmath>

#include "core/error.h"
#include "data/json/json_file.h"
#include "data/tokenizers/bpe/byte_level.h"
#include "data/tokenizers/bpe/tokenizer_json.h"
#include "data/tokenizers/text/scanners.h"
#include "data/tokenizers/tokenizer_files.h"
#include "interop/gguf/format.h"
#include "interop/hf_config.h"
#include "interop/import.h"

namespace mxtape {
namespace {

/// Their names and GGUF's, in pairs; of a block's without its front.
constexpr std::string_view tensor_names =
    " transformer.wte=token_embd model.embed_tokens=token_embd transformer.wpe=position_embd lm_head=output"
    " transformer.ln_f=output_norm model.norm=output_norm ln_1=attn_norm input_layernorm=attn_norm"
    " attn.c_attn=attn_qkv self_attn.q_proj=attn_q self_attn.k_proj=attn_k self_attn.v_proj=attn_v"
    " self_attn.q_norm=attn_q_norm self_attn.k_norm=attn_k_norm attn.c_proj=attn_output"
    " self_attn.o_proj=attn_output ln_2=ffn_norm post_attention_layernorm=ffn_norm mlp.c_fc=ffn_up"
    " mlp.gate_proj=ffn_gate mlp.up_proj=ffn_up mlp.c_proj=ffn_down mlp.down_proj=ffn_down ";

/// A key, behind the architecture's name but for the tokenizer's, and config.json's of GPT-2 and the others.
struct KeyRow {
  const char *key, *gpt2, *llama;
};
constexpr KeyRow config_keys[] = {{"context_length", "n_positions", "max_position_embeddings"},
                                  {"embedding_length", "n_embd", "hidden_size"},
                                  {"block_count", "n_layer", "num_hidden_layers"},
                                  {"feed_forward_length", "n_inner", "intermediate_size"},
                                  {"attention.head_count", "n_head", "num_attention_heads"},
                                  {"attention.head_count_kv", "", "num_key_value_heads"},
                                  {"attention.key_length", "", "head_dim"},
                                  {"attention.value_length", "", "head_dim"},
                                  {"rope.dimension_count", "", "head_dim"},
                                  {"attention.layer_norm_epsilon", "layer_norm_epsilon", ""},
                                  {"attention.layer_norm_rms_epsilon", "", "rms_norm_eps"},
                                  {"rope.freq_base", "", "rope_theta"},
                                  {"tokenizer.ggml.bos_token_id", "bos_token_id", "bos_token_id"},
                                  {"tokenizer.ggml.eos_token_id", "eos_token_id", "eos_token_id"},
                                  {"tokenizer.ggml.padding_token_id", "pad_token_id", "pad_token_id"}};
std::string full_key(const std::string& architecture, const KeyRow& row) {
  return std::string_view(row.key).starts_with("tokenizer") ? row.key : architecture + "." + row.key;
}

constexpr int normal = 1, control = 3, user_defined = 4, unused = 5;  // types of tokens
constexpr const char* rules_key = "tokenizer.huggingface.json";

/// GGUF's word for how a text is cut, the pattern, and whether words that are tokens stay whole.
struct CutRow {
  std::string_view word, pattern;
  bool whole_words;
};
constexpr CutRow cuts[] = {{"gpt-2", "gpt2", false},
                           {"llama-bpe", "llama3", true},
                           {"dbrx", "llama3", false},
                           {"qwen2", "qwen2", false}};

std::string_view word_of(const BpeRules& rules) {
  const auto& steps = rules.splitter;
  const bool alone = steps.size() == 1;  // bytes, which GPT-2's pattern cuts; else a pattern is before them
  const bool plain = rules.byte_level && steps.size() <= 2 && steps.back().cuts == alone &&
                     !steps[0].invert && steps.back().prepend == SplitStep::Prepend::never &&
                     steps[0].behaviour == SplitStep::Behaviour::isolated;
  const KnownPattern* const known = !plain  ? nullptr
                                    : alone ? known_pattern_named("gpt2")
                                            : known_pattern(steps[0].text);
  for (const CutRow& row : cuts)
    if (known && known->name == row.pattern && rules.ignore_merges == row.whole_words) return row.word;
  fail(ExitCode::usage,
       "--to gguf: GGUF has no word for how the tokenizer cuts a text; want as gpt2, llama3 or qwen2");
}

void put_tokenizer(GgufKeys& keys, const Tokenizer& tokenizer, std::int64_t rows,
                   std::vector<std::string>& notes) {
  keys["tokenizer.ggml.model"] = "none";
  if (tokenizer.kind() == Tokenizer::Kind::ids) return;
  const std::string file = tokenizer_json_of(tokenizer);
  require(!file.empty(), ExitCode::usage,
          "--to gguf: the tokenizer ({}) is a model of SentencePiece; want another one", tokenizer.text());
  std::vector<std::string> tokens, merges;
  std::vector<int> types(std::size_t(tokenizer.size()), normal);
  std::string_view word = cuts[0].word;
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

}  // namespace

std::string gguf_name(const std::string& theirs) {
  const auto kind = theirs.rfind('.');
  std::string stem = theirs.substr(0, kind), block;
  if (const auto number = stem.find_first_of("0123456789"); number != stem.npos) {
    const auto end = stem.find('.', number) + 1;
    block = "blk." + stem.substr(number, end - number);
    stem.erase(0, end);
  }
  const auto at = tensor_names.find(" " + stem + "=");
  require(at != std::string_view::npos, "gguf: no name for '{}'", theirs);
  const auto name = tensor_names.substr(at + stem.size() + 2);
  return block.append(name.substr(0, name.find(' '))) + theirs.substr(kind);
}

std::int64_t gguf_row(const ModelFacts& m, std::string_view name, std::int64_t row) {
  const bool turned = name.find(".attn_q.") != name.npos || name.find(".attn_k.") != name.npos;
  if (!turned || (m.architecture != "llama" && m.architecture != "mistral")) return row;
  const std::int64_t i = row % m.head_width;
  return row - i + i / 2 + i % 2 * (m.head_width / 2);
}

GgufKeys gguf_keys_of(const ModelFacts& m, const Tokenizer& tokenizer, std::vector<std::string>& notes) {
  require(m.gelu == Gelu::tanh && m.rope_scaling != RopeScaling::llama3, ExitCode::usage,
          "--to gguf: GGUF has no key for {}",
          m.gelu == Gelu::tanh ? "model.rope_scaling = \"llama3\"; want none or linear"
                               : "model.gelu = \"erf\"; want tanh");
  auto config = hf_config_of(m, "float32");
  config["n_inner"] = m.mlp_width;
  const std::string name = m.architecture == "mistral" ? "llama" : m.architecture;
  GgufKeys keys{{"general.architecture", name}, {name + ".vocab_size", m.vocabulary}};
  for (const KeyRow& row : config_keys)
    if (const auto& value = config[m.is_llama_style() ? row.llama : row.gpt2]; !value.is_null())
      keys[full_key(name, row)] = value.is_array() ? value[0] : value;
  if (m.rope_scaling == RopeScaling::linear)
    keys.update({{name + ".rope.scaling.type", "linear"}, {name + ".rope.scaling.factor", m.rope_factor}});
  if (m.eos.size() > 1)
    notes.push_back(fmt::format("GGUF names one end of text: token {} of {}", m.eos[0], m.eos.size()));
  put_tokenizer(keys, tokenizer, m.vocabulary, notes);
  return keys;
}

nlohmann::json hf_config_of(const GgufFile& file) {
  const std::string name = file.text("general.architecture");
  nlohmann::json config{{"model_type", name},
                        {"tie_word_embeddings", !file.tensors().contains("output.weight")}};
  for (const KeyRow& row : config_keys) {
    const auto value = file.number(full_key(name, row));
    auto& config_value = config[name == "gpt2" ? row.gpt2 : row.llama];
    const bool whole = value && std::abs(*value) < 0x1p53 && *value == std::trunc(*value);
    if (value) config_value = whole ? nlohmann::json(std::int64_t(*value)) : nlohmann::json(*value);
  }
  config.erase("");
  if (const auto type = file.text(name + ".rope.scaling.type"); !type.empty() && type != "none")
    config["rope_scaling"] = {{"rope_type", type},
                              {"factor", file.number(name + ".rope.scaling.factor").value_or(0)}};
  config["attention_bias"] = config["mlp_bias"] = file.tensors().contains("blk.0.attn_output.bias");
  const auto table = file.tensors().find("token_embd.weight");
  if (table != file.tensors().end()) config["vocab_size"] = table->second.dims.front();
  return config;
}

Tokenizer tokenizer_of_file(const std::filesystem::path& path, std::int64_t vocabulary) {
  const std::string rules = is_gguf(path) ? GgufFile(path).text(rules_key) : "";
  if (rules.empty()) return Tokenizer::of_ids(vocabulary);
  const auto plain = plain_tokenizer_of(parse_json_strictly(rules));
  return plain ? *plain : Tokenizer::from_tokenizer_json(rules);
}

}  // namespace mxtape
