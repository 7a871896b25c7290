#include "kernels/cuda/attention/attention_operands.h"

#include "kernels/cuda/attention/attention_flash.cuh"
#include "kernels/cuda/attention/attention_scores.cuh"
#include "kernels/cuda/elements.cuh"
#include "kernels/cuda/launch.h"

namespace mxtape::cuda {
namespace {

constexpr int threads = 256;
constexpr int block_length = 32;

// y [B, heads, T, D], `count` numbers in all, = the part of x, eight numbers a thread.
template <class T>
__global__ void take_heads_kernel(T* y, const T* x, AttentionPart part, std::int64_t count) {
  const std::int64_t i = (std::int64_t(blockIdx.x) * threads + threadIdx.x) * 8;
  if (i >= count) return;
  const std::int64_t d = i % part.width, row = i / part.width, t = row % part.rows, head = row / part.rows;
  store_eight(y + i, load_eight(x + part.offset(head) + t * part.row + d));
}

bool rounds_operand(const Quantizer& q) { return q == bf16_cast || (fits_tiles(q) && !q.has_multiplier()); }

}  // namespace

bool rounds_scores(const Quantizer& q) {
  if (q == bf16_cast) return true;
  return fits_tiles(q) && !q.has_multiplier() && q.scale == ScaleKind::power_of_two &&
         q.block.along == block_length && q.block.across == 1 && has_fast_grid(block_rule(q));
}

ScoreRounding score_rounding(const Quantizer& q, const ClockedKey& draws) {
  if (q == bf16_cast) return {};
  const BlockRule rule = block_rule(q);
  return {q.is_stochastic() ? ScoreRounding::Way::stochastic : ScoreRounding::Way::even,
          rule,
          fast_grid(rule),
          draws,
          round_keys(draws.key.seed),
          q.is_stochastic() ? int(q.sr_bits) : 0};
}

bool blocks_take(const AttentionShape& s, const AttentionQuant& q) {
  if (!q.qk_s.is_identity()) return false;
  const bool whole = s.time % block_length == 0 && s.width % block_length == 0;
  for (const Quantizer* scores : {&q.pv_p, &q.dv_p, &q.dq_ds, &q.dk_ds})
    if (!rounds_scores(*scores)) return false;
  for (const Quantizer* operand : {&q.qk_q, &q.qk_k, &q.pv_v, &q.dv_do, &q.dp_do, &q.dp_v, &q.dq_k, &q.dk_q})
    if (!rounds_operand(*operand)) return false;
  return whole && flash_takes(s);
}

Tensor HeadOperands::taken(const Tensor& x, const AttentionPart& part) const {
  const Tensor y = backend.empty({shape.batch * part.heads * part.rows, part.width}, x.dtype());
  with_type(x.dtype(), [&]<class T>(T*) {
    launch("take_heads", stream, {blocks_for(y.count(), threads * 8), threads}, take_heads_kernel<T>,
           y.data<T>(), x.data<T>(), part, y.count());
  });
  return y;
}

ClockedKey HeadOperands::stream_of(AttentionField field, std::int64_t heads,
                                   std::int64_t elements_of_head) const {
  ClockedKey key = draws;
  key.key = attention_draws(draws.key, attention_place(field), shape, heads, 0, elements_of_head);
  return key;
}

TileTask HeadOperands::task_of(const Tensor& x, const AttentionPart& part, AttentionField field) const {
  const Quantizer& q = quant.*field;
  TileTask task = tile_task(x, stream_of(field, part.heads, part.rows * part.width));
  with_type(x.dtype(), [&]<class T>(T*) { task.x = x.data<T>() + part.first; });
  task.rows = shape.batch * part.heads * part.rows;
  task.cols = part.width;
  task.layout = {part.rows, part.heads, part.row, part.width, part.sequence};
  task.rounding = tile_rounding(q);
  task.draw_bits = q.is_stochastic() ? q.sr_bits : 0;
  return task;
}

std::vector<Tensor> HeadOperands::rounded(const Tensor& x, const AttentionPart& part,
                                          std::initializer_list<AttentionField> uses) const {
  std::vector<Tensor> results;
  std::vector<TileTask> tasks;
  Tensor in_order;  // the heads' rows one below the other, for uses that cannot read them where they are
  const auto taken_once = [&] {
    if (!in_order) in_order = taken(x, part);
    return in_order;
  };
  for (const auto use : uses) {
    const Quantizer& q = quant.*use;
    if (q == bf16_cast) {
      results.push_back(as_bf16(backend, taken_once()));
      continue;
    }
    results.push_back(backend.empty({shape.batch * part.heads * part.rows, part.width}, DType::bf16));
    // Each use has its own stream of draws; two without, one along each axis, are made in one pass.
    const TileTask own = task_of(x, part, use);
    if (own.draw_bits || tasks.empty() || tasks.back().draw_bits || tasks.back().rounding != own.rounding)
      tasks.push_back(own);
    const Axis axis = attention_slots[attention_place(use)].axis;
    TileCopy& copy = axis == Axis::row ? tasks.back().row_blocks : tasks.back().column_blocks;
    copy = tile_copy(q, results.back().data<bf16>(), nullptr);
  }
  for (TileTask& task : tasks) {
    if (!fits_pairs(task)) task.x = taken_once().raw(), task.layout = {};
    quantize_tiles(stream, task);
  }
  return results;
}

}  // namespace mxtape::cuda
