#include "nn/model.h"

#include "autograd/linear_operands.h"
#include "core/text/nearest_name.h"
#include "nn/gpt.h"

namespace mxtape {

bool Model::make_weight_copies(Backend& backend, const PassKey& pass) {
  bool made = false;
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
  std::vector<std::string_view> names;
  for (const ModelKind& kind : model_kinds()) {
    if (kind.name == name) return kind;
    names.push_back(kind.name);
  }
  fail(ExitCode::usage, "no model kind '{}'{}", name, suggestion(name, names));
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

PrecisionPlan uniform_plan(const ModelConfig& c, const LinearQuant& linear, const AttentionQuant& attention) {
  PrecisionPlan plan;
  for (const std::string& name : linear_layer_names(c)) plan.linear[name] = linear;
  for (const std::string& name : attention_layer_names(c)) plan.attention[name] = attention;
  return plan;
}

std::unique_ptr<Model> make_model(Backend& backend, const ModelConfig& config, const PrecisionPlan& plan,
                                  std::uint64_t seed) {
  validate(config);
  require(config.vocabulary > 0, "model.vocabulary = 0: the data's vocabulary was not filled in");
  return model_kind(config.kind).make(backend, config, plan, seed);
}

}  // namespace mxtape
