#pragma once
#include "nn/gpt.h"
#include "optim/adamw.h"
#include "tests/support/device.h"
#include "tests/support/tensors.h"
#include "tests/support/uniform_plan.h"

namespace mxtape::test {

/// Two blocks, all extents different, and not multiples of a block of 32.
inline const ModelConfig tiny{
    .vocabulary = 17, .layers = 2, .heads = 3, .width = 24, .context = 10, .mlp_width = 40};

/// MXFP4 in all six slots, stochastic gradients.
inline LinearQuant fp4_training() {
  LinearQuant q{mxfp4, mxfp4, mxfp4, mxfp4, mxfp4, mxfp4, {}, {}, {}};
  q.dgrad_dy.rounding = q.wgrad_dy.rounding = Rounding::stochastic;
  return q;
}

/// Inputs and targets [B, T].
struct Tokens {
  std::int64_t batch, time;
  std::vector<std::int32_t> inputs, targets;

  Tokens(const ModelConfig& c, std::int64_t B, std::int64_t T, unsigned seed)
      : batch(B),
        time(T),
        inputs(random_tokens(B * T, std::int32_t(c.vocabulary), seed)),
        targets(random_tokens(B * T, std::int32_t(c.vocabulary), seed + 1)) {}
  /// Sequences [first, first + count).
  Tokens part(std::int64_t first, std::int64_t count) const {
    Tokens p = *this;
    p.batch = count;
    p.inputs = {inputs.begin() + first * time, inputs.begin() + (first + count) * time};
    p.targets = {targets.begin() + first * time, targets.begin() + (first + count) * time};
    return p;
  }
};

/// Forward and, in training, backward. Returns the loss.
inline float pass(Backend& backend, Gpt& model, const Tokens& tokens, Tape::Mode mode = Tape::Mode::training,
                  PassKey key = {}, float scale = 1) {
  Tape tape(backend, mode, key);
  const Var logits = model.forward(tape, upload(backend, {tokens.batch, tokens.time}, tokens.inputs));
  const Var loss =
      ops::cross_entropy(tape, logits, upload(backend, {tokens.batch * tokens.time}, tokens.targets), scale);
  if (mode == Tape::Mode::training) tape.backward(loss);
  return download(backend, loss.value)[0];
}

}  // namespace mxtape::test
