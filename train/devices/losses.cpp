#include "train/devices/losses.h"

#include <algorithm>
#include <exception>

namespace mxtape {

void compute_shared(std::vector<float>& numbers, Devices* devices,
                    const std::function<float(std::size_t)>& compute) {
  const std::size_t rank = devices ? devices->rank() : 0, size = devices ? devices->size() : 1;
  // One of each rank at a time, so that all hear at once that rank 0 gives up.
  for (std::size_t first = 0; first < numbers.size(); first += size) {
    std::exception_ptr error;
    std::vector<float> own;
    try {
      if (first + rank < numbers.size()) own.push_back(numbers[first + rank] = compute(first + rank));
    } catch (...) {
      if (!devices || rank != 0) throw;
      error = std::current_exception();
    }
    if (!devices) continue;
    const auto all = gather_numbers(own, *devices, Patience::alone);
    if (error) devices->agree(), std::rethrow_exception(error);
    if (all[0].empty()) return;  // rank 0 has given up
    for (std::size_t i = first; i < std::min(first + size, numbers.size()); ++i)
      numbers[i] = all[i - first].at(0);
  }
}

double mean_of_losses(const std::vector<float>& own, const TrainConfig& train, Devices* devices) {
  const auto all = devices ? gather_numbers(own, *devices) : std::vector<std::vector<float>>{own};
  double sum = 0;
  for (std::int64_t strand = 0; strand < train.strands; ++strand) {
    const auto& losses = all[std::size_t(strand) % all.size()];
    const auto first = std::size_t(strand) / all.size() * std::size_t(train.accumulation);
    for (std::size_t micro = 0; micro < std::size_t(train.accumulation); ++micro)
      sum += double(losses.at(first + micro));
  }
  return sum / double(train.passes());
}

std::string first_nonfinite_kernel(Passes& passes, std::int64_t steps, std::int64_t strands,
                                   Devices* devices) {
  const int rank = devices ? devices->rank() : 0, size = devices ? devices->size() : 1;
  std::string found;
  std::int64_t strand = rank;
  for (; strand < strands && found.empty(); strand += size)
    found = passes.first_nonfinite_kernel(steps, strand);
  if (devices) {
    std::int64_t first = strands + size;
    for (const std::string& text : devices->group().all_gather(
             found.empty() ? "" : fmt::format("{}\n{}", strand, found), Patience::alone)) {
      if (text.empty() || std::stoll(text) >= first) continue;
      first = std::stoll(text);
      found = text.substr(text.find('\n') + 1);
    }
  }
  return found.empty() ? "every kernel's results are finite; the sum of the squared gradients overflows"
                       : found;
}

}  // namespace mxtape
