#include <vector>

#include "kernels/check_quantize.h"
#include "kernels/cuda/cuda_backend.h"
#include "kernels/cuda/elements.cuh"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/quantize/quantize_by_definition.h"
#include "kernels/cuda/quantize/quantize_tile.h"
#include "kernels/cuda/quantize/tensor_scale.h"

namespace mxtape {
namespace cuda {
namespace {

// A block adds the strips of 32 columns: thread (k, c) every 32nd strip from k on, then the first of each
// column the 32 sums in order. The order depends on the number of strips only.
__global__ void add_strips_kernel(float* sums, const float* strips, std::int64_t count, std::int64_t cols,
                                  bool accumulate) {
  constexpr int sides = warp_lanes;
  __shared__ float part[sides][sides];
  const std::int64_t col = std::int64_t(blockIdx.x) * sides + lane_id();
  float sum = 0;
  if (col < cols)
    for (std::int64_t s = warp_id(); s < count; s += sides) sum += strips[s * cols + col];
  part[warp_id()][lane_id()] = sum;
  block_sync();
  if (warp_id() != 0 || col >= cols) return;
  for (int k = 1; k < sides; ++k) sum += part[k][lane_id()];
  sums[col] = accumulate ? sums[col] + sum : sum;
}

bool is_plain_copy(const Quantizer& q) { return q == bf16_cast || q.is_identity(); }

const float* scale_of(const Tensor& encode) { return encode ? encode.data() : nullptr; }

}  // namespace
}  // namespace cuda

void CudaBackend::compute(const call::Quantize& call) {
  check_quantize(call.to, call.x, call.column_sums, call.first_uncoded);
  refuse_codes("cuda: quantize", call.to);
  const std::int64_t rows = call.x.rows(), cols = call.x.cols();
  if (call.x.count() == 0) {
    for (const Rounded& copy : call.to)
      if (copy.layout == Layout::stored)
        pack(copy, call.x, call.first_uncoded);
      else if (copy.multiplier)
        fill(copy.multiplier, cuda::multiplier_of_zeros(copy.by.quantizer));
    if (call.column_sums && call.sums == Write::overwrite && cols > 0) fill(call.column_sums, 0);
    return;
  }

  Tensor parts_of_x;  // amax, found once for both copies
  const auto encode_of = [&](const Rounded& copy, const Tensor& source) -> Tensor {
    const Quantizer& q = copy.by.quantizer;
    if (!q.has_tensor_scale()) {
      if (copy.multiplier) fill(copy.multiplier, 1 / q.alpha);
      return {};
    }
    const bool rotates = copy.by.rotation.size != 0;
    Tensor parts = rotates ? Tensor{} : parts_of_x;
    if (!parts) parts = cuda::largest_of_parts(*this, stream_.get(), source);
    if (!rotates) parts_of_x = parts;
    return cuda::tensor_scale(*this, stream_.get(), copy.multiplier, parts, block_rule(q));
  };
  std::vector<std::pair<const Rounded*, Tensor>> tiled;  // of x itself, with their tensor scales
  for (const Rounded& copy : call.to) {
    const Quantizer& q = copy.by.quantizer;
    const bool rotates = copy.by.rotation.size != 0;
    const Tensor source = rotates ? rotated(call.x, copy.by) : call.x;
    if (copy.layout == Layout::stored) {
      pack(copy, source, call.first_uncoded);
      continue;
    }
    const Tensor encode = encode_of(copy, source);
    if (cuda::is_plain_copy(q)) {
      this->copy(copy.elements, source);
    } else if (!cuda::fits_tiles(q)) {
      cuda::DefinitionTask task = cuda::definition_task(q, copy.by.axis, rows, cols);
      task.encode = cuda::scale_of(encode);
      task.draws = clocked(copy.by.draws);
      task.averages = copy.average ? copy.average.data() : nullptr;
      const Tensor scales = cuda::scale_blocks(*this, stream_.get(), source, task);
      cuda::quantize_by_definition(stream_.get(), copy.elements, source, task);
    } else if (rotates) {
      cuda::TileTask task = cuda::tile_task(source, clocked(copy.by.draws));
      cuda::add_copy(task, copy, cuda::scale_of(encode));
      cuda::quantize_tiles(stream_.get(), task);
    } else {
      tiled.emplace_back(&copy, encode);
    }
  }
  if (tiled.empty() && !call.column_sums) return;

  const std::int64_t strips = (rows + cuda::tile_side - 1) / cuda::tile_side;
  const Tensor strip_sums = call.column_sums ? empty({strips, cols}) : Tensor{};
  const bool together = tiled.size() == 2 && cuda::share_a_pass(*tiled[0].first, *tiled[1].first);
  const cuda::ClockedKey draws = clocked(tiled.empty() ? DrawKey{} : tiled.front().first->by.draws);
  cuda::TileTask task = cuda::tile_task(call.x, draws);
  task.strip_sums = call.column_sums ? strip_sums.data() : nullptr;
  for (std::size_t i = 0; i < tiled.size(); ++i) {
    cuda::add_copy(task, *tiled[i].first, cuda::scale_of(tiled[i].second));
    if (together || i + 1 == tiled.size()) continue;
    cuda::quantize_tiles(stream_.get(), task);
    task = cuda::tile_task(call.x, draws);
  }
  cuda::quantize_tiles(stream_.get(), task);
  if (!call.column_sums) return;
  cuda::launch("quantize: column sums", stream_.get(),
               {cuda::blocks_for(cols, cuda::warp_lanes), cuda::warp_lanes * cuda::warp_lanes},
               cuda::add_strips_kernel, call.column_sums.data(), strip_sums.data(), strips, cols,
               call.sums == Write::accumulate);
}

}  // namespace mxtape
