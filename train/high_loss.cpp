#include "train/high_loss.h"

#include <fmt/format.h>

#include <cmath>

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
      "first random "
      "weights drown the data",
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

}  // namespace mxtape
