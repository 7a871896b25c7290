#pragma once
#include <functional>
#include <string>
#include <vector>

#include "data/loader.h"
#include "nn/model.h"
#include "recipes/recipe.h"

namespace mxtape {

/// Key of a micro-batch's pass, after `steps` optimizer steps.
PassKey pass_key(const Recipe&, std::int64_t steps, std::int64_t strand = 0, std::int64_t micro = 0);

/// The forward and backward passes of a training step, which leave the gradients in the parameters: strand
/// for strand, each of them accumulation micro-batches in a row. `steps`: optimizer steps done before.
class Passes {
 public:
  /// The recipe, the split and the model must live as long as this.
  Passes(Backend&, const Recipe&, const Split&, Model&);

  Kept kept{};  ///< by tapes

  using AfterNode = decltype(Tape::after_node);
  /// A strand's passes and then `then`, which may add to what is returned: their losses [1], still on the
  /// device. `after_node` hears of the last backward pass. Repeats under `name`.
  std::vector<Tensor> compute(const std::string& name, std::int64_t steps, std::int64_t strand,
                              const std::function<void(std::vector<Tensor>&)>& then,
                              const AfterNode& after_node = {});
  /// The strand once more, up to the first kernel with a result that is not finite: "" or "first seen in
  /// ...".
  std::string first_nonfinite_kernel(std::int64_t steps, std::int64_t strand);

 private:
  void upload_batches(std::int64_t steps, std::int64_t strand);
  Tensor micro_step(Backend&, const PassKey&, std::int64_t micro, const AfterNode& = {});

  Backend& backend_;
  const Recipe& recipe_;
  Loader loader_;
  Model& model_;
  struct Tokens {
    Tensor inputs, targets;  // i32 [B, T], [B T]
  };
  std::vector<Tokens> batches_;  // by micro-batch of a strand; the same storage for all
};

}  // namespace mxtape
