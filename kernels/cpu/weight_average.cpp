#include <cmath>

#include "core/parallel.h"
#include "kernels/cpu/cpu_backend.h"

namespace mxtape {

void CpuBackend::compute(const call::WeightAverage& call) {
  if (std::isnan(*call.factor.data())) return;
  float* const average = call.average.data();
  const float* const value = call.value.data();
  constexpr std::int64_t grain = 1 << 16;
  parallel_for(call.average.count(), grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i)
      average[i] = average[i] * call.decay + value[i] * (1 - call.decay);
  });
}

}  // namespace mxtape
