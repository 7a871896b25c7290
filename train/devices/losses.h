#pragma once
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "dist/devices.h"
#include "recipes/recipe.h"
#include "train/devices/passes.h"

namespace mxtape {

/// The mean of the losses of a step's passes, added in their order in double. `own`: of the strands that this
/// device computed, in order; `devices`: null for one.
double mean_of_losses(const std::vector<float>& own, const TrainConfig&, Devices*);

/// Everyone's numbers by rank.
template <class Number>
std::vector<std::vector<Number>> gather_numbers(const std::vector<Number>& own, Devices& devices,
                                                Patience patience = Patience::step) {
  const auto texts = devices.group().all_gather(
      {reinterpret_cast<const char*>(own.data()), own.size() * sizeof(Number)}, patience);
  std::vector<std::vector<Number>> all;
  for (const std::string& text : texts) {
    all.emplace_back(text.size() / sizeof(Number));
    if (!text.empty()) std::memcpy(all.back().data(), text.data(), all.back().size() * sizeof(Number));
  }
  return all;
}

/// numbers[i] = compute(i), each on device i mod N, and then known on all. If `compute` throws on rank 0,
/// that is thrown there when the others are done with the one they are at, and they return without a result;
/// on another rank it breaks the run.
void compute_shared(std::vector<float>& numbers, Devices*, const std::function<float(std::size_t)>& compute);

/// Computes a step once more, each device its strands, up to the first kernel with a result that is not
/// finite: that of the first strand that has one.
std::string first_nonfinite_kernel(Passes&, std::int64_t steps, std::int64_t strands, Devices*);

}  // namespace mxtape
