#include "program/referee/results.h"

#include <fmt/format.h>

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

void Results::add_gaps() {
  for (const Stage stage : {Stage::select, Stage::confirm})
    for (std::size_t point = 0; point < points.size(); ++point)
      for (std::size_t arm = 0; arm < arms.size(); ++arm) {
        const auto all = losses(point, arm, stage), of_baseline = losses(point, baseline, stage);
        std::vector<double> differences;
        for (std::size_t i = 0; i < all.size(); ++i)
          if (all[i] && of_baseline[i]) differences.push_back(*all[i] - *of_baseline[i]);
        if (arm == baseline || differences.empty()) continue;
        Gap gap{point, arm, stage, paired_gap(differences, asked.tolerance)};
        if (differences.size() < all.size())
          gap.reason =
              fmt::format("{} of {} pairs are not finished", all.size() - differences.size(), all.size());
        else if (all.size() == 1)
          gap.reason = "one seed says nothing about others";
        if (blew_up(point, baseline, stage)) gap.reason = "the loss of the baseline blew up";
        gap.holm = gap.gap.p;
        if (gap.reason.empty()) gap.verdict = gap.gap.verdict;
        gaps.push_back(std::move(gap));
      }
}

}  // namespace mxtape::referee
