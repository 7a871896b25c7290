#include <algorithm>

#include "core/parallel.h"
#include "kernels/cpu/cpu_backend.h"
#include "kernels/cpu/pointwise_loops.h"

namespace mxtape {
namespace {

constexpr std::int64_t range_numbers = 1 << 14;

}  // namespace

void CpuBackend::embedding(const Tensor& y, const Tensor& table, const Tensor& positions,
                           const Tensor& tokens) {
  const std::int64_t C = y.cols(), T = tokens.cols();
  const auto add = cpu::pointwise_loops().add;
  parallel_for(y.rows(), std::max<std::int64_t>(1, range_numbers / C),
               [&](std::int64_t begin, std::int64_t end) {
                 for (std::int64_t r = begin; r < end; ++r) {
                   const float* const row = table.data() + tokens.data<std::int32_t>()[r] * C;
                   if (positions)
                     add(y.data() + r * C, row, positions.data() + r % T * C, C);
                   else
                     std::copy_n(row, C, y.data() + r * C);
                 }
               });
}

// A token may occur in any row, so ranges are of channels: every row of dtable is summed in the order of the
// rows, whatever the number of threads.
void CpuBackend::embedding_backward(const Tensor& dtable, const Tensor& dpositions, const Tensor& dy,
                                    const Tensor& tokens, Write table, Write positions) {
  const std::int64_t C = dy.cols(), T = tokens.cols(), rows = dy.rows();
  constexpr std::int64_t channels = 64;  // four cache lines
  const auto add = cpu::pointwise_loops().add;
  if (table == Write::overwrite) fill(dtable, 0);
  parallel_for(C, channels, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = 0; r < rows; ++r) {
      float* const sum = dtable.data() + tokens.data<std::int32_t>()[r] * C + begin;
      add(sum, sum, dy.data() + r * C + begin, end - begin);
    }
  });
  if (!dpositions) return;
  if (positions == Write::overwrite) fill(dpositions, 0);
  parallel_for(T, std::max<std::int64_t>(1, range_numbers / C), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = 0; r < rows; r += T)
      add(dpositions.data() + begin * C, dpositions.data() + begin * C, dy.data() + (r + begin) * C,
          (end - begin) * C);
  });
}

}  // namespace mxtape
