#include "nn/model.h"

#include "autograd/linear_operands.h"
#include "core/text/nearest_name.h"
#include "kernels/attention/slots.h"
#include "nn/gpt.h"

namespace mxtape {
namespace {

bool ties_elements(const Quantizer& q) {
  return q.scale != ScaleKind::none || q.offset != Offset::none || q.flush_subnormals;
}

/// Why the rows of an operand are not rounded one by one; "" if they are. Its blocks run along rows.
std::string of_rows(const Quantizer& q) {
  if (q.is_stochastic()) return "whose random numbers are counted over a whole pass";
  if (q.has_tensor_scale()) return "whose scale of the tensor sees all tokens of a pass";
  return ties_elements(q) && q.block.across != 1 ? "whose blocks lie across tokens" : "";
}

/// The same for blocks along keys, of which the last grows. Zeros behind a token's own keys change no amax.
std::string of_keys(const Quantizer& q, bool zeros_behind) {
  const std::string rows = of_rows(q);
  if (!rows.empty() || !ties_elements(q)) return rows;
  return zeros_behind && q.scale_is_of_amax() && !q.flush_subnormals ? "" : "whose blocks lie along tokens";
}

}  // namespace

bool Model::make_weight_copies(Backend& backend, const PassKey& pass) {
  bool made = false;
  backend.enter("", false);  // an error may have left a layer's name
  for (const LinearWeight& w : linear_weights())
    made |= mxtape::make_weight_copies(
        backend, w.parameter, use_of(w.parameter, w.quant, w.tensor_id, pass, backend.gemm_kernels()), true);
  return made;
}

std::vector<ModelKind>& model_kinds() {
  static std::vector<ModelKind> kinds{gpt2_kind};
  return kinds;
}

const ModelKind& model_kind(std::string_view name) {
  for (const ModelKind& kind : model_kinds())
    if (kind.name == name) return kind;
  fail(ExitCode::usage, "no model kind '{}'{}", name, suggestion(name, names_in(model_kinds())));
}

std::vector<std::string> linear_layer_names(const ModelConfig& c) {
  return model_kind(c.kind).linear_layers(c);
}
std::vector<std::string> attention_layer_names(const ModelConfig& c) {
  return model_kind(c.kind).attention_layers(c);
}
std::vector<std::string> parameter_layer_names(const ModelConfig& c) {
  const auto names = model_kind(c.kind).parameter_layers;
  return names ? names(c) : std::vector<std::string>{};
}
std::int64_t parameter_count(const ModelConfig& c) { return model_kind(c.kind).parameter_count(c); }

std::unique_ptr<Model> make_model(Backend& backend, const ModelConfig& config, const PrecisionPlan& plan,
                                  std::uint64_t seed) {
  validate(config);
  require(config.vocabulary > 0, "model.vocabulary = 0: the data's vocabulary was not filled in");
  return model_kind(config.kind).make(backend, config, plan, seed);
}

std::string mixes_tokens(const PrecisionPlan& plan) {
  const auto report = [](const std::string& layer, std::string_view slot, const Quantizer& q,
                         const std::string& why) {
    return why.empty() ? "" : fmt::format("{} {} is {}, {}", layer, slot, to_text(q), why);
  };
  for (const auto& [layer, quant] : plan.linear)
    for (const auto& [slot, q] :
         {std::pair<const char*, const Quantizer&>{"fprop.x", quant.fprop_x}, {"out", quant.out}})
      if (const std::string found = report(layer, slot, q, of_rows(q)); !found.empty()) return found;
  for (const auto& [layer, quant] : plan.attention) {
    for (const AttentionSlot& slot : {attention_slots[0], attention_slots[1]}) {
      const Quantizer& q = quant.*slot.field;
      if (const std::string found = report(layer, slot.name, q, of_rows(q)); !found.empty()) return found;
    }
    for (const AttentionSlot& slot : {attention_slots[2], attention_slots[3], score_slot}) {
      const Quantizer& q = quant.*slot.field;
      const std::string why = of_keys(q, slot.field != &AttentionQuant::pv_v);
      if (const std::string found = report(layer, slot.name, q, why); !found.empty()) return found;
    }
  }
  return "";
}

}  // namespace mxtape
