#pragma once
#include <memory>
#include <string>

#include "train/devices/exchange.h"
#include "train/devices/passes.h"

namespace mxtape {

/// What an optimizer step computes: its passes, the sum of their gradients, the update. One strand is one
/// recorded piece of work; several come in rounds, a strand per device (docs/devices.md).
class Step {
 public:
  /// Recipe, split and model must live as long as this. `devices`: null for one.
  Step(Backend&, const Recipe&, const Split&, Model&, Devices*);
  ~Step() { forget(); }
  Step(const Step&) = delete;

  /// How the model rounds from step `start` on.
  void set_precision(std::int64_t start, const PrecisionPlan&);
  /// What was recorded is not repeated: what it uses lies elsewhere now.
  void forget();

  struct Result {
    double loss;  ///< mean over the step's tokens, before the update [nats per token]
    float norm;   ///< of the global gradient, before clipping; not finite: no weight was updated
  };
  /// After `steps` steps, with learning_rate * factor.
  Result compute(std::int64_t steps, float factor);

  /// Null: one strand, whose gradients are the step's own.
  Exchange* exchange() { return exchange_.get(); }
  AdamW& optimizer() { return optimizer_; }
  Passes& passes() { return passes_; }

 private:
  Tensor compute_one_strand(std::int64_t steps);
  Tensor compute_rounds(std::int64_t steps);
  void read_losses(const std::vector<Tensor>& results);

  Backend& backend_;
  const Recipe& recipe_;
  Model& model_;
  Devices* devices_;
  std::unique_ptr<Exchange> exchange_;
  AdamW optimizer_;
  Passes passes_;
  std::string name_;           // what the device knows it by
  std::vector<float> losses_;  // of the step's passes on this device
};

}  // namespace mxtape
