#include <algorithm>

#include "core/parallel.h"
#include "kernels/calls_rows.h"
#include "kernels/cpu/cpu_backend.h"
#include "kernels/cpu/loops/pointwise_loops.h"

namespace mxtape {
namespace {

constexpr std::int64_t range_numbers = 1 << 14;

}  // namespace

void CpuBackend::compute(const call::Embedding& call) {
  const std::int64_t C = call.y.cols(), T = call.tokens.cols();
  const auto add = cpu::pointwise_loops().add;
  parallel_for(call.y.rows(), std::max<std::int64_t>(1, range_numbers / C),
               [&](std::int64_t begin, std::int64_t end) {
                 for (std::int64_t r = begin; r < end; ++r) {
                   const float* const row = call.table.data() + call.tokens.data<std::int32_t>()[r] * C;
                   if (call.positions)
                     add(call.y.data() + r * C, row, call.positions.data() + r % T * C, C);
                   else
                     std::copy_n(row, C, call.y.data() + r * C);
                 }
               });
}

// A token may occur in any row, so ranges are of channels: every row of dtable is summed in the order of the
// rows, whatever the number of threads.
void CpuBackend::compute(const call::EmbeddingBackward& call) {
  const std::int64_t C = call.dy.cols(), T = call.tokens.cols(), rows = call.dy.rows();
  constexpr std::int64_t channels = 64;  // four cache lines
  const auto add = cpu::pointwise_loops().add;
  if (call.table == Write::overwrite) fill(call.dtable, 0);
  parallel_for(C, channels, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = 0; r < rows; ++r) {
      float* const sum = call.dtable.data() + call.tokens.data<std::int32_t>()[r] * C + begin;
      add(sum, sum, call.dy.data() + r * C + begin, end - begin);
    }
  });
  if (!call.dpositions) return;
  if (call.positions == Write::overwrite) fill(call.dpositions, 0);
  parallel_for(T, std::max<std::int64_t>(1, range_numbers / C), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = 0; r < rows; r += T)
      add(call.dpositions.data() + begin * C, call.dpositions.data() + begin * C,
          call.dy.data() + (r + begin) * C, (end - begin) * C);
  });
}

}  // namespace mxtape
