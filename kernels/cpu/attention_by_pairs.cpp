#include <algorithm>
#include <cmath>

#include "core/parallel.h"
#include "kernels/calls_rows.h"
#include "kernels/cpu/attention_paths.h"
#include "kernels/cpu/flush_subnormals.h"
#include "kernels/cpu/loops/attention_loops.h"
#include "kernels/cpu/pairs/pairs.h"

namespace mxtape::cpu {
namespace {

PairSource source(const Tensor& x, const AttentionPart& part, std::int64_t head, std::int64_t rows) {
  const auto* const first = static_cast<const char*>(x.raw()) + part.offset(head) * size_of(x.dtype());
  return {first, part.row, rows, part.width, x.dtype() == DType::bf16};
}

PairHead head_of(const AttentionShape& s, const auto& call, std::int64_t h) {
  const std::int64_t key_head = h / s.group(),
                     length = attention_length(s, call.lengths, key_head / s.kv_heads);
  const Tensor& kv = s.own_keys ? call.kv : call.qkv;
  const std::int64_t keys = s.seen(s.time - 1, length);
  return {.queries = s.time,
          .keys = keys,
          .width = s.width,
          .first = s.first_position,
          .length = length,
          .causal = s.mask == AttentionMask::causal,
          .scale = 1 / std::sqrt(float(s.width)),
          .q = source(call.qkv, s.q(), h, s.time),
          .k = source(kv, s.k(), key_head, keys),
          .v = source(kv, s.v(), key_head, keys),
          .same_keys = h % s.group() != 0,
          .lse = call.lse.data() + h * s.time};
}

/// What a head's computation reads, but for keys and values that are the last head's.
template <class Call>
std::array<PairSource, PairHead::parts> read_by(const Call& call, std::int64_t h) {
  const AttentionShape& s = call.shape;
  const PairHead head = head_of(s, call, h);
  std::array<PairSource, PairHead::parts> parts{head.q};
  if (!head.same_keys) parts[1] = head.k, parts[2] = head.v;
  if constexpr (requires { call.d_o; })
    parts[3] = source(call.d_o, s.o(), h, s.time), parts[4] = source(call.o, s.o(), h, s.time);
  return parts;
}

/// Heads that share keys, one behind the other: run(prepare(head)), with memory that keeps the keys' copies.
template <class Job>
void for_heads(Backend& memory, const auto& call, const auto& prepare, void (*run)(const Job&)) {
  const AttentionShape& s = call.shape;
  std::int64_t bytes = 0;
  for (const PairSource& part : read_by(call, 0)) bytes += part.rows * part.width * part.size();
  // Little in all is in the last cache already, and a long head has no room in the second.
  const bool fetches = bytes <= 1 << 20 && bytes * s.batch * s.heads > 1 << 22;
  parallel_for(s.batch * s.kv_heads, 1, [&](std::int64_t key_head, std::int64_t) {
    Tensor scratch;
    const std::int64_t end = (key_head + 1) * s.group();
    for (std::int64_t h = key_head * s.group(); h < end; ++h) {
      Job job = prepare(h);
      // Threads take turns, so this one's next keys are likely to be those behind the others'.
      const std::int64_t next = h + 1 < end ? h + 1 : (key_head + threads()) * s.group();
      if (fetches && next < s.batch * s.heads) job.next = read_by(call, next);
      if (!scratch) scratch = memory.empty({job.scratch_words()}, DType::i32);
      job.scratch = static_cast<Word*>(scratch.raw());
      const FlushSubnormals flush(true);
      run(job);
    }
  });
}

}  // namespace

void attention_by_pairs(Backend& memory, const call::Attention& call) {
  const AttentionShape& s = call.shape;
  const auto prepare = [&](std::int64_t h) {
    return PairForward{head_of(s, call, h), call.o.data() + s.o().offset(h), s.o().row};
  };
  for_heads(memory, call, prepare, best_pair_loops().forward);
}

void attention_by_pairs_backward(Backend& memory, const call::AttentionBackward& call) {
  const AttentionShape& s = call.shape;
  const Tensor& dkv = s.own_keys ? call.dkv : call.dqkv;
  const Tensor delta = memory.empty({s.batch * s.heads, s.time});
  const auto prepare = [&](std::int64_t h) {
    const PairHead head = head_of(s, call, h);
    float* const dk = dkv.data() + s.k().offset(h / s.group());
    float* const dv = dkv.data() + s.v().offset(h / s.group());
    for (float* const sums : {dk, dv})  // of keys that no query sees
      for (std::int64_t row = head.keys; !head.same_keys && row < s.keys; ++row)
        std::fill_n(sums + row * s.k().row, s.width, 0.0f);
    float* const to = delta.data() + h * s.time;
    attention_loops().row_dots(to, call.d_o.data() + s.o().offset(h), s.o().row,
                               call.o.data() + s.o().offset(h), s.o().row, s.time, s.width);
    float* const dq = call.dqkv.data() + s.q().offset(h);
    return PairBackward{head, source(call.d_o, s.o(), h, s.time), to, dq, dk, dv, s.q().row, s.k().row};
  };
  for_heads(memory, call, prepare, best_pair_loops().backward);
}

}  // namespace mxtape::cpu
