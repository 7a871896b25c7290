#include "train/high_loss.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace mxtape {

HighLoss::HighLoss(const Recipe& recipe)
    : guessing(std::log(double(recipe.model.vocabulary))),
      most(2 * guessing),
      spread(double(recipe.model.init_deviation) * std::sqrt(double(recipe.model.width))),
      largest_spread(std::sqrt(most)) {}

std::string remark_on_start(const Recipe& recipe) {
  const HighLoss high(recipe);
  if (!high.starts_high()) return "";
  return fmt::format(
      "model.init_deviation = {} ({}) gives logits of deviation {:.3g}; above {:.3g}, sqrt(2 ln V), the "
      "first random weights drown the data",
      recipe.model.init_deviation, recipe.origin("model.init_deviation"), high.spread, high.largest_spread);
}

std::string remark_on_loss(const Recipe& recipe, std::int64_t step, double loss) {
  const HighLoss high(recipe);
  if (loss <= high.most) return "";
  const std::string start = remark_on_start(recipe);
  const char* const others =
      step == 1 ? "look at precision and the data" : "look at optim.learning_rate and precision";
  return fmt::format("the loss {:.4g} is above {:.4g}, twice that of guessing, ln({}); {}", loss, high.most,
                     recipe.model.vocabulary, start.empty() ? others : start);
}

LossSpike::LossSpike(std::int64_t vocabulary) : guessing_(std::log(double(vocabulary))) {}

std::optional<LossSpike::Spike> LossSpike::look_at(double loss) {
  // Both look: the first one remembers whether the loss is up.
  const auto up = blow_up(loss), above = above_window(loss);
  if (losses_.size() == window) losses_.pop_front();
  losses_.push_back(loss);
  if (losses_.size() >= smooth)
    best_ = std::min(best_, std::accumulate(losses_.end() - smooth, losses_.end(), 0.0) / double(smooth));
  return up ? up : above;
}

std::optional<LossSpike::Spike> LossSpike::above_window(double loss) const {
  if (losses_.size() < window) return {};
  const double mean = std::accumulate(losses_.begin(), losses_.end(), 0.0) / double(window);
  double squares = 0;
  for (const double x : losses_) squares += (x - mean) * (x - mean);
  const double deviation = std::sqrt(squares / double(window - 1));
  if (!(loss - mean > limit * deviation)) return {};
  return Spike{(loss - mean) / deviation, {}};
}

std::optional<LossSpike::Spike> LossSpike::blow_up(double loss) {
  if (losses_.size() < smooth) return {};
  const double share = (loss - best_) / (guessing_ - best_);
  if (share <= 0.25) blown_up_ = false;
  if (blown_up_ || best_ >= guessing_ || share <= 0.5) return {};
  double squares = 0;
  for (std::size_t i = 1; i < losses_.size(); ++i)
    squares += (losses_[i] - losses_[i - 1]) * (losses_[i] - losses_[i - 1]);
  const double noise = std::sqrt(squares / double(2 * (losses_.size() - 1))), z = (loss - best_) / noise;
  if (!(z > limit && guessing_ - best_ > limit * noise)) return {};
  blown_up_ = true;
  return Spike{z, share};
}

}  // namespace mxtape
