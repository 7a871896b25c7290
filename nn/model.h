#pragma once
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "nn/config.h"

namespace mxtape {

class KeyValueCache;

/// The arguments of a layer's ops::linear() that last: they live as long as the model.
struct LinearWeight {
  std::string layer;
  Parameter& parameter;
  const LinearQuant& quant;
  std::uint32_t tensor_id;
  bool tied = false;  ///< read as another layer's parameter too: an embedding
};

/// What training, evaluation, sampling and checkpoints know of a model.
class Model {
 public:
  virtual ~Model() = default;
  virtual const ModelConfig& config() const = 0;
  /// logits [B, T, V] of tokens i32 [B, T], T <= context.
  virtual Var forward(Tape&, const Tensor& tokens) = 0;
  /// What its linear layers multiply by, each layer of the plan once.
  virtual std::vector<LinearWeight> linear_weights() = 0;
  /// Makes all copies of weights that a training step uses and that are not at hand (make_weight_copies()).
  /// True if one was made. `pass` of the step; forward() makes what is missing as well.
  bool make_weight_copies(Backend&, const PassKey& pass);
  /// In the order of computation, tied ones once.
  virtual std::vector<Parameter*> parameters() = 0;
  /// For a recipe's phases: weight copies go. The plan must name every layer and nothing else.
  virtual void set_precision(const PrecisionPlan&) = 0;
  /// Makes what is no parameter, as tables of angles, again on the device that the parameters have moved to.
  virtual void place_constants(Backend&) {}
  /// logits [B, 1, V] after the last of `tokens` i32 [B, T], which follow those of the cache and join them;
  /// T = 1 unless it is empty. Evaluation only. What forward() gives but for the order of additions, if
  /// no_cache() is "": else it says why not (mixes_tokens()).
  virtual Var extend(Tape&, const Tensor&, KeyValueCache&) { fail(ExitCode::internal, "{}", no_cache()); }
  virtual std::string no_cache() const { return "this kind of model keeps no keys and values"; }
};

/// A kind of model: what `model.kind` names. Layers are named in the order of computation.
struct ModelKind {
  std::string_view name;  ///< "gpt2"
  std::vector<std::string> (*linear_layers)(const ModelConfig&);
  std::vector<std::string> (*attention_layers)(const ModelConfig&);
  std::int64_t (*parameter_count)(const ModelConfig&);  ///< trained numbers, tied ones once
  /// Parameters drawn from `seed` by index: the same on every device.
  std::unique_ptr<Model> (*make)(Backend&, const ModelConfig&, const PrecisionPlan&, std::uint64_t seed);
  /// Layers whose parameters enter no GEMM and can be rounded: PrecisionPlan::parameters. May be null.
  std::vector<std::string> (*parameter_layers)(const ModelConfig&) = nullptr;
};

/// All kinds; a row of its own makes a kind known to recipes and to every command.
std::vector<ModelKind>& model_kinds();
/// Throws Error(usage) with the names that there are.
const ModelKind& model_kind(std::string_view name);

std::vector<std::string> linear_layer_names(const ModelConfig&);
std::vector<std::string> attention_layer_names(const ModelConfig&);
std::vector<std::string> parameter_layer_names(const ModelConfig&);
std::int64_t parameter_count(const ModelConfig&);
/// The model of config.kind. The vocabulary must be set. Throws Error(usage) for what validate() refuses.
std::unique_ptr<Model> make_model(Backend&, const ModelConfig&, const PrecisionPlan&, std::uint64_t seed);

/// Whether a forward pass in this precision computes each token from the tokens before it alone, as it would
/// if it came last: then keys and values can be kept, and passes joined, without another result than that of
/// the order of additions. "" if so, else the first operand that mixes tokens and why: "blocks.0.attn pv.v is
/// mxint8, whose blocks lie along tokens".
std::string mixes_tokens(const PrecisionPlan&);

}  // namespace mxtape
