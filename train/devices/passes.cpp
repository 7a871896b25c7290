#include "train/devices/passes.h"

#include "kernels/observers/finite.h"
#include "recipes/rollbacks.h"

namespace mxtape {

PassKey pass_key(const Recipe& recipe, std::int64_t steps, std::int64_t strand, std::int64_t micro) {
  const std::int64_t strands = steps * recipe.train.strands + strand;
  return {.seed = recipe.seed, .step = std::uint32_t(strands * recipe.train.accumulation + micro)};
}

Passes::Passes(Backend& backend, const Recipe& recipe, const Split& split, Model& model)
    : backend_(backend),
      recipe_(recipe),
      loader_(split, recipe.train.batch_size, recipe.model.context, recipe.seed),
      model_(model) {}

std::vector<Tensor> Passes::compute(const std::string& name, std::int64_t steps, std::int64_t strand,
                                    const std::function<void(std::vector<Tensor>&)>& then,
                                    const AfterNode& after_node) {
  upload_batches(steps, strand);
  backend_.set_clocks(pass_key(recipe_, steps, strand).step, std::uint32_t(steps + 1));
  return backend_.repeat(name, [&] {
    std::vector<Tensor> losses;
    for (std::int64_t micro = 0; micro < recipe_.train.accumulation; ++micro)
      losses.push_back(micro_step(backend_, pass_key(recipe_, steps, strand, micro), micro,
                                  micro + 1 == recipe_.train.accumulation ? after_node : AfterNode()));
    then(losses);
    return losses;
  });
}

void Passes::upload_batches(std::int64_t steps, std::int64_t strand) {
  batches_.resize(std::size_t(recipe_.train.accumulation));
  // The rows of the data are numbered as passes are, but for those that a rollback passes over.
  const std::int64_t row = steps + steps_passed_over(recipe_, steps);
  for (std::size_t micro = 0; micro < batches_.size(); ++micro) {
    const Batch batch = loader_.at(pass_key(recipe_, row, strand, std::int64_t(micro)).step);
    auto& [inputs, targets] = batches_[micro];
    if (!inputs) {
      inputs = backend_.empty({batch.batch, batch.time}, DType::i32);
      targets = backend_.empty({batch.batch * batch.time}, DType::i32);
    }
    backend_.upload(inputs, batch.inputs.data());
    backend_.upload(targets, batch.targets.data());
  }
}

Tensor Passes::micro_step(Backend& backend, const PassKey& pass, std::int64_t micro,
                          const AfterNode& after_node) {
  const auto& [inputs, targets] = batches_[std::size_t(micro)];
  Tape tape(backend, Tape::Mode::training, pass, kept);
  tape.after_node = after_node;
  try {
    const Var logits = model_.forward(tape, inputs);
    static const std::string name = "loss";
    const Tape::Layer layer(tape, name);
    const Var loss = ops::cross_entropy(tape, logits, targets, 1 / float(recipe_.train.passes()));
    tape.backward(loss);
    return loss.value;
  } catch (const Error& e) {
    if (e.code() != ExitCode::diverged) throw;
    fail(e.code(), "{}: {}", tape.place(), e.what());
  }
}

std::string Passes::first_nonfinite_kernel(std::int64_t steps, std::int64_t strand) {
  for (auto* parameter : model_.parameters()) parameter->has_grad = false;
  upload_batches(steps, strand);
  Finite finite;
  ObservingBackend checked(backend_, {&finite});
  try {
    for (std::int64_t micro = 0; micro < recipe_.train.accumulation; ++micro)
      micro_step(checked, pass_key(recipe_, steps, strand, micro), micro);
    return "";
  } catch (const Error& e) {
    if (e.code() != ExitCode::diverged) throw;
    return std::string("first seen in ") + e.what();
  }
}

}  // namespace mxtape
