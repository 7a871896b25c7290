#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "formats/rotation.h"
#include "kernels/backend.h"
#include "nn/model.h"

namespace mxtape {

/// How far weights w and their rounded values Q(w) went in a window of steps, by every step's way:
///   d_w = sum over steps of |w' - w|, d_q = sum over steps of |Q(w') - Q(w)|
/// for each weight. d_q / d_w is about 1 where a weight drifts, and far above where it goes to and fro over a
/// rounding edge (TetraJet-v2, arXiv:2510.27527).
class Oscillation {
 public:
  /// A weight with d_q / d_w of at least this much oscillates (the same).
  static constexpr double oscillates_from = 8;
  struct Found {
    std::string layer;
    Quantizer quantizer;
    std::int64_t steps = 0, weights = 0;  ///< of the window; of the layer that were followed
    double ratio = 0;                     ///< sum of d_q over sum of d_w
    double share = 0;                     ///< of the weights that moved: those that oscillate
  };

  /// Follows the first rows of each of these layers' weights: about `sample` numbers, and 16 rows at least,
  /// so that blocks of 16 x 16 are whole.
  Oscillation(Backend&, std::vector<LinearWeight> weights, std::int64_t sample, std::uint64_t seed);
  bool is_on() const { return on_; }
  /// A window begins with the weights as they are.
  void begin();
  /// After a step. A rounding that changed in it holds for both sides.
  void look();
  /// The layers whose weights are rounded, and move. A rotation with signs of each step is left out: its
  /// roundings cannot be compared.
  std::vector<Found> end();

 private:
  struct Followed {
    LinearWeight weight;
    Quantizer quantizer{};
    Rotation rotation{};
    std::vector<float> w{}, rounded{}, moved{}, rounded_moved{};
    std::int64_t steps = 0;
  };
  std::vector<float> values_of(const LinearWeight&);
  std::vector<float> rounded(const Followed&, const std::vector<float>& w) const;

  Backend& backend_;
  std::vector<Followed> followed_;
  std::int64_t sample_;
  DrawKey signs_;  // of a rotation that has the same ones in every step
  bool on_ = false;
};

}  // namespace mxtape
