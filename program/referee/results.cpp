#include "program/referee/results.h"

#include <algorithm>

namespace mxtape::referee {

std::vector<std::optional<double>> Results::losses(std::size_t point, std::size_t arm, Stage stage) const {
  const auto& all = seeds(stage);
  std::vector<std::optional<double>> found(all.size());
  for (const Run& run : runs)
    if (run.point == point && run.arm == arm && run.stage == stage)
      if (const auto at = std::ranges::find(all, run.seed); at != all.end())
        found[std::size_t(at - all.begin())] = run.loss;
  return found;
}

bool Results::blew_up(std::size_t point, std::size_t arm, Stage stage) const {
  return std::ranges::any_of(runs, [&](const Run& run) {
    return run.point == point && run.arm == arm && run.stage == stage &&
           std::ranges::any_of(run.spikes, [](const Spike& spike) { return spike.unlearned.has_value(); });
  });
}

}  // namespace mxtape::referee
