#include "kernels/attention/attention.h"

#include "core/error.h"

namespace mxtape {

void check(const AttentionShape& s) {
  require(s.batch > 0 && s.time > 0 && s.heads > 0 && s.width > 0 && s.keys > 0,
          "attention: B = {}, T = {}, H = {}, D = {}, {} keys; want all at least 1", s.batch, s.time, s.heads,
          s.width, s.keys);
  require(s.kv_heads > 0 && s.heads % s.kv_heads == 0,
          "attention: {} key heads for {} query heads; want a divisor of their number", s.kv_heads, s.heads);
  require(s.room >= s.keys, "attention: {} keys in a tensor with room for {}", s.keys, s.room);
  require(
      s.own_keys || (s.keys == s.time && s.room == s.time && s.first_position == 0),
      "attention: {} keys for {} queries from position {} on; queries that lie with their keys are as many "
      "and begin at 0",
      s.keys, s.time, s.first_position);
  require(s.first_position >= 0 && (s.mask == AttentionMask::none || s.first_position + s.time <= s.keys),
          "attention: {} queries from position {} on, {} keys; each query wants the key at its position",
          s.time, s.first_position, s.keys);
  require(s.dropout >= 0 && s.dropout < 1, "attention: dropout is {}, want a number in [0, 1)", s.dropout);
}

}  // namespace mxtape
