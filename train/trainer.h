#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "data/loader.h"
#include "nn/model.h"
#include "optim/adamw.h"
#include "recipes/recipe.h"
#include "train/checkpoint.h"
#include "train/evaluate.h"

namespace mxtape {

/// One training run in memory: model, optimizer and the position, which is the number of steps done. Nothing
/// else is carried from step to step: batches, dropout and stochastic roundings follow from (seed, step).
class Trainer {
 public:
  /// The recipe's vocabulary, if 0, is taken from the data. Throws Error(data) if the data does not fit.
  Trainer(Backend&, const Recipe&, const TokenFile&);
  ~Trainer();
  Trainer(const Trainer&) = delete;
  Trainer& operator=(const Trainer&) = delete;

  struct StepResult {
    double loss;  ///< mean over the step's tokens, before the update [nats per token]
    float norm;   ///< of the global gradient, before clipping
    float learning_rate;
  };
  /// One optimizer step: batch_size * accumulation sequences. Throws Error(diverged) if the loss or the norm
  /// is not finite; then neither weights nor moments have changed.
  StepResult step();
  /// Instead of step(), after one that diverged: the step counts, and no weight or moment changes.
  void skip_step();
  std::int64_t steps_done() const { return steps_done_; }
  std::int64_t tokens_per_step() const {
    return recipe_.train.batch_size * recipe_.train.accumulation * recipe_.model.context;
  }
  bool finished() const { return steps_done_ >= recipe_.train.steps; }

  /// Mean loss over the validation split (recipe: train.eval_windows).
  Evaluation validate(std::function<void(std::int64_t, std::int64_t)> progress = {});

  void save(const std::filesystem::path&);
  /// Goes on where the checkpoint was written; moments stay zero up to step optim.start. Only for a new
  /// Trainer.
  void load(const CheckpointFile&);
  /// What later checkpoints say of the run's past: CheckpointHeader::lineage.
  void set_lineage(std::string lineage) { lineage_ = std::move(lineage); }
  const std::string& lineage() const { return lineage_; }

  const Recipe& recipe() const { return recipe_; }
  Model& model() { return *model_; }
  /// Key of the pass that comes next.
  PassKey next_pass() const;

 private:
  /// Brings the tokens of the step's micro-batches to the device.
  void upload_batches();
  /// Forward and backward of one micro-batch; its loss [1], still on the device.
  Tensor micro_step(Backend&, std::int64_t micro);
  void use_precision_of_this_step();
  /// What a device knows this trainer's steps by, in the precision that is in force.
  std::string step_name() const;
  [[noreturn]] void stop_diverged(const std::string& what);
  std::string first_nonfinite_kernel();

  Backend& backend_;
  Recipe recipe_;
  const TokenFile& data_;
  Loader loader_;
  std::unique_ptr<Model> model_;
  AdamW optimizer_;
  std::map<std::int64_t, PrecisionPlan> plans_;  // by the step from which they hold; 0 is always there
  std::int64_t plan_start_ = 0;                  // of the plan in force
  struct Tokens {
    Tensor inputs, targets;  // i32 [B, T], [B T]
  };
  std::vector<Tokens> batches_;  // by micro-batch; the same storage in every step
  std::int64_t steps_done_ = 0;
  std::string lineage_;
};

/// The recipe with its vocabulary filled in from the data. Throws Error(data) if a given one is too small.
Recipe with_vocabulary(Recipe, const Tokenizer&);

}  // namespace mxtape
