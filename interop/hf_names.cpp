#include "interop/hf_names.h"

#include <algorithm>
#include <span>

#include "core/error.h"

namespace mxtape {
namespace {

/// An extent of ours. QKV: (H + 2 G) D rows. one: a vector.
enum class Extent : std::uint8_t { one, V, T, C, F, HD, GD, D, QKV };
/// When a tensor is there.
enum class When : std::uint8_t { always, bias, qkv_bias, qk_norm, untied };

/// Their tensor, ours, the extents that ours has, whether theirs is the transpose. Rows with the same name of
/// ours stand one below the other. {}: the block's number.
struct NameRow {
  std::string_view theirs, ours;
  Extent rows, cols;
  bool transposed = false;
  When when = When::always;
};

using enum Extent;
constexpr NameRow gpt2_names[] = {
    {"transformer.wte.weight", "tokens.weight", V, C},
    {"transformer.wpe.weight", "positions.weight", T, C},
    {"transformer.h.{}.ln_1.weight", "blocks.{}.norm1.gain", one, C},
    {"transformer.h.{}.ln_1.bias", "blocks.{}.norm1.bias", one, C, false, When::bias},
    {"transformer.h.{}.attn.c_attn.weight", "blocks.{}.attn.qkv.weight", QKV, C, true},
    {"transformer.h.{}.attn.c_attn.bias", "blocks.{}.attn.qkv.bias", one, QKV, false, When::bias},
    {"transformer.h.{}.attn.c_proj.weight", "blocks.{}.attn.out.weight", C, HD, true},
    {"transformer.h.{}.attn.c_proj.bias", "blocks.{}.attn.out.bias", one, C, false, When::bias},
    {"transformer.h.{}.ln_2.weight", "blocks.{}.norm2.gain", one, C},
    {"transformer.h.{}.ln_2.bias", "blocks.{}.norm2.bias", one, C, false, When::bias},
    {"transformer.h.{}.mlp.c_fc.weight", "blocks.{}.mlp.up.weight", F, C, true},
    {"transformer.h.{}.mlp.c_fc.bias", "blocks.{}.mlp.up.bias", one, F, false, When::bias},
    {"transformer.h.{}.mlp.c_proj.weight", "blocks.{}.mlp.down.weight", C, F, true},
    {"transformer.h.{}.mlp.c_proj.bias", "blocks.{}.mlp.down.bias", one, C, false, When::bias},
    {"transformer.ln_f.weight", "norm.gain", one, C},
    {"transformer.ln_f.bias", "norm.bias", one, C, false, When::bias},
    {"lm_head.weight", "head.weight", V, C, false, When::untied}};

/// Llama, Mistral, Qwen2, Qwen3. Gate stands above up.
constexpr NameRow llama_names[] = {
    {"model.embed_tokens.weight", "tokens.weight", V, C},
    {"model.layers.{}.input_layernorm.weight", "blocks.{}.norm1.gain", one, C},
    {"model.layers.{}.self_attn.q_proj.weight", "blocks.{}.attn.qkv.weight", HD, C},
    {"model.layers.{}.self_attn.k_proj.weight", "blocks.{}.attn.qkv.weight", GD, C},
    {"model.layers.{}.self_attn.v_proj.weight", "blocks.{}.attn.qkv.weight", GD, C},
    {"model.layers.{}.self_attn.q_proj.bias", "blocks.{}.attn.qkv.bias", one, HD, false, When::qkv_bias},
    {"model.layers.{}.self_attn.k_proj.bias", "blocks.{}.attn.qkv.bias", one, GD, false, When::qkv_bias},
    {"model.layers.{}.self_attn.v_proj.bias", "blocks.{}.attn.qkv.bias", one, GD, false, When::qkv_bias},
    {"model.layers.{}.self_attn.q_norm.weight", "blocks.{}.attn.q_norm.gain", one, D, false, When::qk_norm},
    {"model.layers.{}.self_attn.k_norm.weight", "blocks.{}.attn.k_norm.gain", one, D, false, When::qk_norm},
    {"model.layers.{}.self_attn.o_proj.weight", "blocks.{}.attn.out.weight", C, HD},
    {"model.layers.{}.self_attn.o_proj.bias", "blocks.{}.attn.out.bias", one, C, false, When::bias},
    {"model.layers.{}.post_attention_layernorm.weight", "blocks.{}.norm2.gain", one, C},
    {"model.layers.{}.mlp.gate_proj.weight", "blocks.{}.mlp.gate_up.weight", F, C},
    {"model.layers.{}.mlp.up_proj.weight", "blocks.{}.mlp.gate_up.weight", F, C},
    {"model.layers.{}.mlp.gate_proj.bias", "blocks.{}.mlp.gate_up.bias", one, F, false, When::bias},
    {"model.layers.{}.mlp.up_proj.bias", "blocks.{}.mlp.gate_up.bias", one, F, false, When::bias},
    {"model.layers.{}.mlp.down_proj.weight", "blocks.{}.mlp.down.weight", C, F},
    {"model.layers.{}.mlp.down_proj.bias", "blocks.{}.mlp.down.bias", one, C, false, When::bias},
    {"model.norm.weight", "norm.gain", one, C},
    {"lm_head.weight", "head.weight", V, C, false, When::untied}};

std::span<const NameRow> names_of(const ModelFacts& model) {
  if (model.is_llama_style()) return llama_names;
  return gpt2_names;
}

std::int64_t extent_of(const ModelFacts& m, Extent extent) {
  switch (extent) {
    case one:
      return 1;
    case V:
      return m.vocabulary;
    case T:
      return m.positions;
    case C:
      return m.width;
    case F:
      return m.mlp_width;
    case HD:
      return m.heads * m.head_width;
    case GD:
      return m.kv_heads * m.head_width;
    case D:
      return m.head_width;
    case QKV:
      return m.qkv_rows();
  }
  fail(ExitCode::internal, "hf_names: no such extent");
}

bool is_there(const ModelFacts& m, When when) {
  switch (when) {
    case When::always:
      return true;
    case When::bias:
      return m.bias || !m.is_llama_style();  // of GPT-2 export writes zeros
    case When::qkv_bias:
      return m.bias || m.qkv_bias;
    case When::qk_norm:
      return m.qk_norm;
    case When::untied:
      return !m.tied;
  }
  fail(ExitCode::internal, "hf_names: no such condition");
}

std::string numbered(std::string_view name, std::int64_t block) {
  const auto at = name.find("{}");
  if (at == std::string_view::npos) return std::string(name);
  return fmt::format("{}{}{}", name.substr(0, at), block, name.substr(at + 2));
}

void add_row(std::vector<TensorPlan>& plan, const ModelFacts& model, const NameRow& row, std::int64_t block) {
  if (!is_there(model, row.when)) return;
  TensorPart part{.theirs = numbered(row.theirs, block),
                  .rows = extent_of(model, row.rows),
                  .cols = extent_of(model, row.cols),
                  .transposed = row.transposed,
                  .vector = row.rows == one,
                  .optional = row.when == When::bias && !model.bias};
  const std::string ours = numbered(row.ours, block);
  const bool goes_on = !plan.empty() && plan.back().ours == ours;
  if (!goes_on) plan.push_back({ours, part.vector ? Shape{0} : Shape{0, part.cols}, {}});
  plan.back().shape.dims[0] += part.vector ? part.cols : part.rows;
  plan.back().parts.push_back(std::move(part));
}

}  // namespace

std::vector<std::uint64_t> TensorPart::their_dims() const {
  if (vector) return {std::uint64_t(cols)};
  if (transposed) return {std::uint64_t(cols), std::uint64_t(rows)};
  return {std::uint64_t(rows), std::uint64_t(cols)};
}

std::vector<TensorPlan> tensor_plan(const ModelFacts& model) {
  std::vector<TensorPlan> plan;
  const auto rows = names_of(model);
  const auto of_block = [](const NameRow& row) { return row.theirs.find("{}") != std::string_view::npos; };
  const auto first = std::find_if(rows.begin(), rows.end(), of_block);
  const auto last = std::find_if_not(first, rows.end(), of_block);
  for (auto row = rows.begin(); row != first; ++row) add_row(plan, model, *row, 0);
  for (std::int64_t block = 0; block < model.layers; ++block)
    for (auto row = first; row != last; ++row) add_row(plan, model, *row, block);
  for (auto row = last; row != rows.end(); ++row) add_row(plan, model, *row, 0);
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
