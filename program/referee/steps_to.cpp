#include <cmath>

#include "program/sweep/results.h"

namespace mxtape::referee {
namespace {

/// By run; none where it never has the loss.
using Measures = std::vector<std::optional<double>>;

Reached reached(const Results& r, Reached made, const Measures& at) {
  std::vector<double> logarithms;
  double sum = 0;
  for (const Run& run : r.runs) {
    if (run.point != made.point || run.arm != made.arm || run.stage != made.stage || !run.loss) continue;
    const auto value = at[std::size_t(&run - r.runs.data())];
    ++(value ? made.runs : made.never);
    if (!value) continue;
    sum += *value;
    const Run* base = r.run(made.point, r.baseline, made.stage, run.seed);
    if (const auto same = base ? at[std::size_t(base - r.runs.data())] : std::nullopt)
      logarithms.push_back(std::log(*value / *same));
  }
  if (made.runs > 0) made.mean = sum / double(made.runs);
  if (made.runs > 0 && made.arm != r.baseline && logarithms.size() == r.seeds(made.stage).size() &&
      !r.blew_up(made.point, r.baseline, made.stage))
    made.ratio = paired_ratio(logarithms);
  return made;
}

}  // namespace

void add_steps_to(Results& r) {
  for (const double loss : r.asked.steps_to) {
    Measures steps, seconds;
    for (std::size_t i = 0; i < r.runs.size(); ++i) {
      steps.push_back(steps_to(r.runs[i].curve, loss));
      seconds.push_back(steps[i]);
      if (steps[i]) *seconds[i] *= r.times.runs[i].ms.value_or(NAN) / 1e3;
    }
    for (const Stage stage : {Stage::select, Stage::confirm})
      for (std::size_t point = 0; point < r.points.size(); ++point)
        for (std::size_t arm = 0; arm < r.arms.size(); ++arm) {
          const Reached found = reached(r, {loss, point, arm, stage}, steps);
          if (found.runs + found.never == 0) continue;
          r.steps_to.push_back(found);
          r.times.seconds_to.push_back(reached(r, {loss, point, arm, stage}, seconds));
        }
  }
}

}  // namespace mxtape::referee
