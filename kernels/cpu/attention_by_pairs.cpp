#include <algorithm>
#include <array>
#include <cmath>
#include <initializer_list>

#include "core/parallel.h"
#include "kernels/calls_rows.h"
#include "kernels/cpu/attention_paths.h"
#include "kernels/cpu/loops/attention_loops.h"
#include "kernels/cpu/pairs/pairs.h"

namespace mxtape::cpu {
namespace {

/// Scratch of one thread: so many words of each part, which starts with a cache line.
template <std::size_t count>
struct Scratch {
  Tensor room;
  std::array<Word*, count> parts;
  Scratch(Backend& memory, const std::int64_t (&words)[count]) {
    std::array<std::int64_t, count + 1> at{};
    for (std::size_t i = 0; i < count; ++i) at[i + 1] = at[i] + (words[i] + 15) / 16 * 16;
    room = memory.empty({at[count]}, DType::i32);
    for (std::size_t i = 0; i < count; ++i) parts[i] = static_cast<Word*>(room.raw()) + at[i];
  }
};

PairSource source(const Tensor& x, const AttentionPart& part, std::int64_t head, std::int64_t rows) {
  const auto* const first = static_cast<const char*>(x.raw()) + part.offset(head) * size_of(x.dtype());
  return {first, part.row, rows, part.width, x.dtype() == DType::bf16};
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
    const Scratch scratch(memory, {k.in_lines(), v.in_columns(), q_words, tile_words, tile_words});
    const auto [k_lines, v_columns, q_rows, scores, p] = scratch.parts;
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
    const Scratch scratch(memory, {k.in_lines(), k.in_lines(), k.in_columns(), any.in_rows(), any.in_rows(),
                                   any.in_columns(), any.in_columns(), tile_words, tile_words, tile_words});
    const auto [k_lines, v_lines, k_columns, q_rows, do_rows, q_columns, do_columns, p, ds_lines, ds_rows] =
        scratch.parts;
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
      attention_loops().row_dots(delta.data(), call.d_o.data() + s.o().offset(h), s.o().row,
                                 call.o.data() + s.o().offset(h), s.o().row, s.time, s.width);
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
