#include "interop/hf_names.h"

#include <algorithm>
#include <span>

#include "core/error.h"

namespace mxtape {
namespace {

/// An extent of ours, and when a tensor is there.
using Extent = std::int64_t (*)(const ModelFacts&);
using When = bool (*)(const ModelFacts&);
constexpr Extent one = [](const ModelFacts&) { return std::int64_t(1); };  // a vector
constexpr Extent V = [](const ModelFacts& m) { return m.vocabulary; };
constexpr Extent T = [](const ModelFacts& m) { return m.positions; };
constexpr Extent C = [](const ModelFacts& m) { return m.width; };
constexpr Extent F = [](const ModelFacts& m) { return m.mlp_width; };
constexpr Extent HD = [](const ModelFacts& m) { return m.heads * m.head_width; };
constexpr Extent GD = [](const ModelFacts& m) { return m.kv_heads * m.head_width; };
constexpr Extent D = [](const ModelFacts& m) { return m.head_width; };
constexpr Extent QKV = [](const ModelFacts& m) { return m.qkv_rows(); };
constexpr When always = [](const ModelFacts&) { return true; };
// Of GPT-2 export writes zeros.
constexpr When bias = [](const ModelFacts& m) { return m.bias || !m.is_llama_style(); };
constexpr When qkv_bias = [](const ModelFacts& m) { return m.bias || m.qkv_bias; };
constexpr When qk_norm = [](const ModelFacts& m) { return m.qk_norm; };
constexpr When untied = [](const ModelFacts& m) { return !m.tied; };

/// Their tensor, ours, GGUF's without its block and role, the extents that ours has, whether theirs is the
/// transpose. Rows with the same name of ours stand one below the other. {}: the block's number.
struct NameRow {
  std::string_view theirs, ours, gguf;
  Extent rows, cols;
  When when = always;
  bool transposed = false;
};

constexpr NameRow gpt2_names[] = {
    {"transformer.wte.weight", "tokens.weight", "token_embd", V, C},
    {"transformer.wpe.weight", "positions.weight", "position_embd", T, C},
    {"transformer.h.{}.ln_1.weight", "blocks.{}.norm1.gain", "attn_norm", one, C},
    {"transformer.h.{}.ln_1.bias", "blocks.{}.norm1.bias", "attn_norm", one, C, bias},
    {"transformer.h.{}.attn.c_attn.weight", "blocks.{}.attn.qkv.weight", "attn_qkv", QKV, C, always, true},
    {"transformer.h.{}.attn.c_attn.bias", "blocks.{}.attn.qkv.bias", "attn_qkv", one, QKV, bias},
    {"transformer.h.{}.attn.c_proj.weight", "blocks.{}.attn.out.weight", "attn_output", C, HD, always, true},
    {"transformer.h.{}.attn.c_proj.bias", "blocks.{}.attn.out.bias", "attn_output", one, C, bias},
    {"transformer.h.{}.ln_2.weight", "blocks.{}.norm2.gain", "ffn_norm", one, C},
    {"transformer.h.{}.ln_2.bias", "blocks.{}.norm2.bias", "ffn_norm", one, C, bias},
    {"transformer.h.{}.mlp.c_fc.weight", "blocks.{}.mlp.up.weight", "ffn_up", F, C, always, true},
    {"transformer.h.{}.mlp.c_fc.bias", "blocks.{}.mlp.up.bias", "ffn_up", one, F, bias},
    {"transformer.h.{}.mlp.c_proj.weight", "blocks.{}.mlp.down.weight", "ffn_down", C, F, always, true},
    {"transformer.h.{}.mlp.c_proj.bias", "blocks.{}.mlp.down.bias", "ffn_down", one, C, bias},
    {"transformer.ln_f.weight", "norm.gain", "output_norm", one, C},
    {"transformer.ln_f.bias", "norm.bias", "output_norm", one, C, bias},
    {"lm_head.weight", "head.weight", "output", V, C, untied}};

/// Llama, Mistral, Qwen2, Qwen3. Gate stands above up.
constexpr NameRow llama_names[] = {
    {"model.embed_tokens.weight", "tokens.weight", "token_embd", V, C},
    {"model.layers.{}.input_layernorm.weight", "blocks.{}.norm1.gain", "attn_norm", one, C},
    {"model.layers.{}.self_attn.q_proj.weight", "blocks.{}.attn.qkv.weight", "attn_q", HD, C},
    {"model.layers.{}.self_attn.k_proj.weight", "blocks.{}.attn.qkv.weight", "attn_k", GD, C},
    {"model.layers.{}.self_attn.v_proj.weight", "blocks.{}.attn.qkv.weight", "attn_v", GD, C},
    {"model.layers.{}.self_attn.q_proj.bias", "blocks.{}.attn.qkv.bias", "attn_q", one, HD, qkv_bias},
    {"model.layers.{}.self_attn.k_proj.bias", "blocks.{}.attn.qkv.bias", "attn_k", one, GD, qkv_bias},
    {"model.layers.{}.self_attn.v_proj.bias", "blocks.{}.attn.qkv.bias", "attn_v", one, GD, qkv_bias},
    {"model.layers.{}.self_attn.q_norm.weight", "blocks.{}.attn.q_norm.gain", "attn_q_norm", one, D, qk_norm},
    {"model.layers.{}.self_attn.k_norm.weight", "blocks.{}.attn.k_norm.gain", "attn_k_norm", one, D, qk_norm},
    {"model.layers.{}.self_attn.o_proj.weight", "blocks.{}.attn.out.weight", "attn_output", C, HD},
    {"model.layers.{}.self_attn.o_proj.bias", "blocks.{}.attn.out.bias", "attn_output", one, C, bias},
    {"model.layers.{}.post_attention_layernorm.weight", "blocks.{}.norm2.gain", "ffn_norm", one, C},
    {"model.layers.{}.mlp.gate_proj.weight", "blocks.{}.mlp.gate_up.weight", "ffn_gate", F, C},
    {"model.layers.{}.mlp.up_proj.weight", "blocks.{}.mlp.gate_up.weight", "ffn_up", F, C},
    {"model.layers.{}.mlp.gate_proj.bias", "blocks.{}.mlp.gate_up.bias", "ffn_gate", one, F, bias},
    {"model.layers.{}.mlp.up_proj.bias", "blocks.{}.mlp.gate_up.bias", "ffn_up", one, F, bias},
    {"model.layers.{}.mlp.down_proj.weight", "blocks.{}.mlp.down.weight", "ffn_down", C, F},
    {"model.layers.{}.mlp.down_proj.bias", "blocks.{}.mlp.down.bias", "ffn_down", one, C, bias},
    {"model.norm.weight", "norm.gain", "output_norm", one, C},
    {"lm_head.weight", "head.weight", "output", V, C, untied}};

bool is_of_block(const NameRow& row) { return row.theirs.find("{}") != std::string_view::npos; }

std::string numbered(std::string_view name, std::int64_t block) {
  const auto at = name.find("{}");
  if (at == std::string_view::npos) return std::string(name);
  return fmt::format("{}{}{}", name.substr(0, at), block, name.substr(at + 2));
}

void add_row(std::vector<TensorPlan>& plan, const ModelFacts& model, bool transposed, const NameRow& row,
             std::int64_t block) {
  if (!row.when(model)) return;
  const std::string_view role = row.theirs.substr(row.theirs.rfind('.'));
  TensorPart part{
      .theirs = numbered(row.theirs, block),
      .gguf = fmt::format("{}{}{}", is_of_block(row) ? fmt::format("blk.{}.", block) : "", row.gguf, role),
      .rows = row.rows(model),
      .cols = row.cols(model),
      .transposed = transposed && row.transposed,
      .vector = row.rows == one,
      .optional = row.when == bias && !model.bias};
  const std::string ours = numbered(row.ours, block);
  const bool goes_on = !plan.empty() && plan.back().ours == ours;
  if (!goes_on) plan.push_back({ours, part.vector ? Shape{0} : Shape{0, part.cols}, {}});
  part.first_row = plan.back().shape[0];
  plan.back().shape.dims[0] += part.row_count();
  plan.back().parts.push_back(std::move(part));
}

}  // namespace

std::vector<std::uint64_t> TensorPart::their_dims() const {
  if (vector) return {std::uint64_t(cols)};
  if (transposed) return {std::uint64_t(cols), std::uint64_t(rows)};
  return {std::uint64_t(rows), std::uint64_t(cols)};
}

std::vector<TensorPlan> tensor_plan(const ModelFacts& model, bool transposed) {
  std::vector<TensorPlan> plan;
  const auto rows = model.is_llama_style() ? std::span<const NameRow>(llama_names) : gpt2_names;
  const auto first = std::ranges::find_if(rows, is_of_block);
  const auto last = std::find_if_not(first, rows.end(), is_of_block);
  for (auto row = rows.begin(); row != first; ++row) add_row(plan, model, transposed, *row, 0);
  for (std::int64_t block = 0; block < model.layers; ++block)
    for (auto row = first; row != last; ++row) add_row(plan, model, transposed, *row, block);
  for (auto row = last; row != rows.end(); ++row) add_row(plan, model, transposed, *row, 0);
  return plan;
}

std::string_view name_prefix(const ModelFacts& model) {
  return model.is_llama_style() ? "model." : "transformer.";
}

bool is_buffer(const ModelFacts& model, std::string_view name) {
  if (model.is_llama_style()) return name.ends_with(".rotary_emb.inv_freq");
  return name.ends_with(".attn.bias") || name.ends_with(".attn.masked_bias");
}

}  // namespace mxtape
