#pragma once
#include <cstddef>
#include <cstdint>
#include <deque>
#include <limits>
#include <optional>
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
  bool starts_high() const { return guessing > 0 && spread > largest_spread; }
};

/// For people: why the untrained model is not one to train; empty if its logits are small enough.
std::string remark_on_start(const Recipe&);
/// For people: that the loss of this step, counted from 1, is too high, and why; empty if it is not.
std::string remark_on_loss(const Recipe&, std::int64_t step, double loss);

/// Notices a loss that stands out of the ones before it, in one of two ways.
///
/// Against a full window: more than `limit` standard deviations above its mean.
///
/// At any length: the loss blew up. A model that guesses has a loss of ln V; m, the least mean of `smooth`
/// losses in a row, says that ln V - m was learned. The loss has given back more than half of it. Both what
/// was learned and how far the loss is above m are more than `limit` standard deviations s of its noise. The
/// noise is told from the fall of the loss by its steps d from one loss to the next: s^2 = mean(d^2) / 2,
/// which a steady fall of f a step raises by f^2 / 2 alone (von Neumann et al. 1941, Ann. Math. Stat. 12,
/// 153). m is a mean, as the least of single losses lies some s too low. Noticed once, until no more than a
/// quarter is given back.
class LossSpike {
 public:
  static constexpr std::size_t window =
      128;                            ///< losses that are remembered, as llm.c's outlier detector does
  static constexpr double limit = 6;  ///< standard deviations; of normal noise one loss in 10^9 is beyond
  static constexpr std::size_t smooth = 8;  ///< losses: few enough for the first steps of a run

  struct Spike {
    double z;                         ///< standard deviations above the window's mean, or above m
    std::optional<double> unlearned;  ///< share of what was learned that is given back, if it blew up
  };

  explicit LossSpike(std::int64_t vocabulary);
  /// Remembers the loss.
  std::optional<Spike> look_at(double loss);

 private:
  std::optional<Spike> above_window(double loss) const;
  std::optional<Spike> blow_up(double loss);

  double guessing_;                                        // ln V
  double best_ = std::numeric_limits<double>::infinity();  // m
  bool blown_up_ = false;
  std::deque<double> losses_;
};

}  // namespace mxtape
