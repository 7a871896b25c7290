#include <algorithm>
#include <cmath>
#include <initializer_list>

#include "core/parallel.h"
#include "kernels/calls_rows.h"
#include "kernels/cpu/attention_paths.h"
#include "kernels/cpu/loops/attention_loops.h"
#include "kernels/cpu/pairs/pairs.h"

namespace mxtape::cpu {
namespace {

/// Scratch of one thread, handed out in whole cache lines.
class Scratch {
 public:
  Scratch(Backend& memory, std::int64_t words) : words_(memory.empty({words}, DType::i32)) {}
  Word* take(std::int64_t words) {
    Word* const begin = static_cast<Word*>(words_.raw()) + used_;
    used_ += lines(words);
    return begin;
  }
  static constexpr std::int64_t lines(std::int64_t words) { return (words + 15) / 16 * 16; }

 private:
  Tensor words_;
  std::int64_t used_ = 0;
};

PairSource source(const Tensor& x, const AttentionPart& part, std::int64_t head, std::int64_t rows) {
  return {x.data() + part.offset(head), part.row, rows, part.width};
}

/// The query head that the calling thread will most likely take behind `head`: the next that reads the same
/// keys, or with n threads the first of the n-th key head from here. Only speed depends on it.
std::int64_t next_head(const AttentionShape& s, std::int64_t head) {
  if ((head + 1) % s.group() != 0) return head + 1;
  const std::int64_t key_head = head / s.group() + threads();
  return key_head < s.batch * s.kv_heads ? key_head * s.group() : -1;
}

/// Its queries, the same rows of `others` [B, T, H D], and its keys and values unless it shares this head's.
PairAhead ahead_of(const AttentionShape& s, std::int64_t head, std::int64_t keys, const Tensor& q,
                   const Tensor& kv, std::initializer_list<const Tensor*> others) {
  PairAhead ahead;
  const std::int64_t next = next_head(s, head);
  if (next < 0) return ahead;
  ahead.add(source(q, s.q(), next, s.time));
  for (const Tensor* x : others) ahead.add(source(*x, s.o(), next, s.time));
  if (next % s.group() == 0)
    for (const AttentionPart& part : {s.k(), s.v()}) ahead.add(source(kv, part, next / s.group(), keys));
  return ahead;
}

PairHead head_of(const AttentionShape& s, std::int64_t length) {
  return {.queries = s.time,
          .keys = s.seen(s.time - 1, length),
          .width = s.width,
          .first = s.first_position,
          .length = length,
          .causal = s.mask == AttentionMask::causal,
          .scale = 1 / std::sqrt(float(s.width))};
}

}  // namespace

void attention_by_pairs(Backend& memory, const call::Attention& call) {
  const AttentionShape& s = call.shape;
  const PairTiles& tiles = *pair_tiles();
  const Tensor& kv = s.own_keys ? call.kv : call.qkv;
  parallel_for(s.batch * s.kv_heads, 1, [&](std::int64_t key_head, std::int64_t) {
    const PairHead head = head_of(s, attention_length(s, call.lengths, key_head / s.kv_heads));
    const PairSource k = source(kv, s.k(), key_head, head.keys), v = source(kv, s.v(), key_head, head.keys);
    const std::int64_t q_words = source(call.qkv, s.q(), 0, s.time).in_rows();
    const std::int64_t tile_words = PairForward::scratch_words(head.keys);
    Scratch scratch(memory, Scratch::lines(k.in_lines()) + Scratch::lines(v.in_columns()) +
                                Scratch::lines(q_words) + 2 * tile_words);
    Word *const k_lines = scratch.take(k.in_lines()), *const v_columns = scratch.take(v.in_columns());
    Word *const q_rows = scratch.take(q_words), *const scores = scratch.take(tile_words);
    Word* const p = scratch.take(tile_words);
    tiles.pack(k, {.lines = k_lines});
    tiles.pack(v, {.columns = v_columns});
    for (std::int64_t h = key_head * s.group(); h < (key_head + 1) * s.group(); ++h) {
      tiles.pack(source(call.qkv, s.q(), h, s.time), {.rows = q_rows});
      tiles.forward({.head = head,
                     .q = q_rows,
                     .k = k_lines,
                     .v = v_columns,
                     .o = call.o.data() + s.o().offset(h),
                     .o_stride = s.o().row,
                     .lse = call.lse.data() + h * s.time,
                     .s = reinterpret_cast<float*>(scores),
                     .p = p,
                     .ahead = ahead_of(s, h, head.keys, call.qkv, kv, {})});
    }
  });
}

void attention_by_pairs_backward(Backend& memory, const call::AttentionBackward& call) {
  const AttentionShape& s = call.shape;
  const PairTiles& tiles = *pair_tiles();
  const Tensor &kv = s.own_keys ? call.kv : call.qkv, &dkv = s.own_keys ? call.dkv : call.dqkv;
  parallel_for(s.batch * s.kv_heads, 1, [&](std::int64_t key_head, std::int64_t) {
    const PairHead head = head_of(s, attention_length(s, call.lengths, key_head / s.kv_heads));
    const PairSource k = source(kv, s.k(), key_head, head.keys), v = source(kv, s.v(), key_head, head.keys);
    const PairSource any = source(call.qkv, s.q(), 0, s.time);  // as large as any head's queries
    const std::int64_t tile_words = PairBackward::scratch_words(s.time);
    const Tensor delta = memory.empty({s.time});
    Scratch scratch(memory, 2 * Scratch::lines(k.in_lines()) + Scratch::lines(k.in_columns()) +
                                2 * Scratch::lines(any.in_rows()) + 2 * Scratch::lines(any.in_columns()) +
                                3 * Scratch::lines(tile_words));
    Word *const k_lines = scratch.take(k.in_lines()), *const v_lines = scratch.take(k.in_lines());
    Word* const k_columns = scratch.take(k.in_columns());
    Word *const q_rows = scratch.take(any.in_rows()), *const do_rows = scratch.take(any.in_rows());
    Word* const q_columns = scratch.take(any.in_columns());
    Word* const do_columns = scratch.take(any.in_columns());
    Word *const p = scratch.take(tile_words), *const ds_lines = scratch.take(tile_words);
    Word* const ds_rows = scratch.take(tile_words);
    tiles.pack(k, {.lines = k_lines, .columns = k_columns});
    tiles.pack(v, {.lines = v_lines});
    float* const dk = dkv.data() + s.k().offset(key_head);
    float* const dv = dkv.data() + s.v().offset(key_head);
    for (float* const sums : {dk, dv})  // of keys that no query sees
      for (std::int64_t row = head.keys; row < s.keys; ++row)
        std::fill_n(sums + row * s.k().row, s.width, 0.0f);
    for (std::int64_t h = key_head * s.group(); h < (key_head + 1) * s.group(); ++h) {
      const PairSource q = source(call.qkv, s.q(), h, s.time), d_o = source(call.d_o, s.o(), h, s.time);
      tiles.pack(q, {.rows = q_rows, .columns = q_columns});
      tiles.pack(d_o, {.rows = do_rows, .columns = do_columns});
      attention_loops().row_dots(delta.data(), d_o.x, d_o.stride, call.o.data() + s.o().offset(h), s.o().row,
                                 s.time, s.width);
      tiles.backward({.head = head,
                      .q_rows = q_rows,
                      .q_columns = q_columns,
                      .do_rows = do_rows,
                      .do_columns = do_columns,
                      .k_lines = k_lines,
                      .k_columns = k_columns,
                      .v_lines = v_lines,
                      .lse = call.lse.data() + h * s.time,
                      .delta = delta.data(),
                      .dq = call.dqkv.data() + s.q().offset(h),
                      .dk = dk,
                      .dv = dv,
                      .q_stride = s.q().row,
                      .k_stride = s.k().row,
                      .accumulate = h > key_head * s.group(),
                      .p = p,
                      .ds_lines = ds_lines,
                      .ds_rows = ds_rows,
                      .ahead = ahead_of(s, h, head.keys, call.qkv, kv, {&call.d_o, &call.o})});
    }
  });
}

}  // namespace mxtape::cpu
