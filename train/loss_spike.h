#pragma once
#include <cstddef>
#include <cstdint>
#include <deque>
#include <limits>
#include <optional>

namespace mxtape {

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
