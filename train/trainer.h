#pragma once
#include <cstdint>
#include <memory>
#include <string>

#include "nn/model.h"
#include "recipes/recipe.h"
#include "train/checkpoint.h"
#include "train/devices/shared_state.h"
#include "train/evaluate.h"
#include "train/step.h"

namespace mxtape {

/// One training run in memory: model, optimizer and the position, which is the number of steps done. Nothing
/// else is carried from step to step: batches, dropout and stochastic roundings follow from (seed, step).
/// Where several devices train together, each has a Trainer, and what rank 0's is asked for the others are
/// asked for, too: it announces it (Devices).
class Trainer {
 public:
  /// The recipe's vocabulary, if 0, is taken from the data. Throws Error(data) if the data does not fit.
  /// `devices`: null for one.
  Trainer(Backend&, const Recipe&, const TokenFile&, Devices* devices = nullptr);
  Trainer(const Trainer&) = delete;

  struct StepResult {
    double loss;  ///< mean over the step's tokens, before the update [nats per token]
    float norm;   ///< of the global gradient, before clipping
    float learning_rate;
  };
  /// One optimizer step: batch_size * accumulation * strands sequences. Throws Error(diverged) if the loss or
  /// the norm is not finite; then neither weights nor moments have changed.
  StepResult step();
  /// From the next step on, the precision of a recipe with one more of train.rollbacks.
  void begin_phase(const std::string& rollback);
  /// Instead of step(), after one that diverged: the step counts, and no weight or moment changes.
  void skip_step();
  std::int64_t steps_done() const { return steps_done_; }
  bool finished() const { return steps_done_ >= recipe_.train.steps; }

  /// Mean loss over the validation split (recipe: train.eval_windows).
  Evaluation validate(std::function<void(std::int64_t, std::int64_t)> progress = {});

  /// On rank 0 writes the file; the others only take part.
  void save(const std::filesystem::path&);
  /// Goes on where the checkpoint was written; moments stay zero up to step optim.start. Only for a new
  /// Trainer.
  void load(const CheckpointFile&);
  /// The same where no file is read: on ranks but 0, or where rank 0's model has its weights already.
  void load_shared(std::int64_t step, const CheckpointFile* file = nullptr);
  /// What later checkpoints say of the run's past: CheckpointHeader::lineage.
  void set_lineage(std::string lineage) { lineage_ = std::move(lineage); }
  const std::string& lineage() const { return lineage_; }

  const Recipe& recipe() const { return recipe_; }
  Model& model() { return *model_; }
  SharedState state();
  Devices* devices() const { return devices_; }
  /// Key of the pass that comes next.
  PassKey next_pass() const { return pass_key(recipe_, steps_done_); }

 private:
  void use_precision_of_this_step();
  /// Throws Error(diverged), with where it was seen first.
  void require_finite(double number, const char* what);

  Backend& backend_;
  Recipe recipe_;
  const TokenFile& data_;
  Devices* devices_;
  std::unique_ptr<Model> model_;
  Step step_;
  std::int64_t plan_start_ = -1;  // of the plan in force
  std::int64_t steps_done_ = 0;
  float norm_ = 0;  // of the last gradient
  std::string lineage_;
};

/// The recipe with its vocabulary filled in from the data. Throws Error(data) if a given one is too small.
Recipe with_vocabulary(Recipe, const Tokenizer&);

}  // namespace mxtape
