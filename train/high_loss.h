#pragma once
#include <cstdint>
#include <string>

#include "recipes/recipe.h"

namespace mxtape {

/// When a loss is worse than an untrained model's may be. Such a model knows nothing of its targets: its loss
/// is that of guessing, ln V for a vocabulary of V, and what the spread of its logits adds. Logits of
/// standard deviation s that do not depend on the target cost s^2 / 2 on average, up to s = sqrt(2 ln V).
/// There the loss is 2 ln V; beyond it a single logit decides each softmax, and the first random weights are
/// all that the model says. Source: the random energy model's transition, Derrida 1981, Phys. Rev. B 24,
/// 2613.
struct HighLoss {
  double guessing;  ///< ln V [nats per token]
  double most;      ///< 2 ln V
  double spread;  ///< of an untrained model's logits: init_deviation x sqrt(width), as the last norm's output
                  ///< has unit variance and the head's weights have that deviation
  double largest_spread;  ///< sqrt(2 ln V)

  /// The recipe's vocabulary must be known.
  explicit HighLoss(const Recipe&);
  bool starts_high() const { return spread > largest_spread; }
};

/// For people: why the untrained model is not one to train; empty if its logits are small enough.
std::string remark_on_start(const Recipe&);
/// For people: that the loss of this step, counted from 1, is too high, and why; empty if it is not.
std::string remark_on_loss(const Recipe&, std::int64_t step, double loss);

}  // namespace mxtape
