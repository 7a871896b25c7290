#include "program/records/steps_to.h"

#include <algorithm>

namespace mxtape {

std::optional<double> steps_to(const std::vector<RunLog::Point>& validation, double loss) {
  const auto at = std::ranges::find_if(validation, [=](const auto& point) { return point.loss <= loss; });
  if (at == validation.end()) return {};
  if (at == validation.begin()) return double(at->step);
  const auto& before = *(at - 1);
  return double(before.step) +
         (before.loss - loss) / (before.loss - at->loss) * double(at->step - before.step);
}

}  // namespace mxtape
