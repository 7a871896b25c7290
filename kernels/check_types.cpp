#include "kernels/calls_rows.h"

#include "core/error.h"

namespace mxtape {
namespace {

constexpr bool takes(Role role, DType dtype) {
  switch (role) {
    case Role::activation:
    case Role::result:
      return dtype == DType::f32 || dtype == DType::bf16;
    case Role::operand:
    case Role::rounded:
      return dtype == DType::f32 || dtype == DType::bf16 || dtype == DType::u8;
    case Role::input:
    case Role::output:
    case Role::sum:
    case Role::state:
      return dtype == DType::f32;
    case Role::index:
    case Role::found:
      return dtype == DType::i32;
    case Role::wide:
      return dtype == DType::f64;
    case Role::any:
      return true;
  }
  return false;
}

}  // namespace

void check_types(AnyCall any) {
  const auto check = [](const auto* call) {
    const Tensor* first = nullptr;  // of the activations
    call->each(*call, [&](Role role, std::string_view field, const Tensor& x) {
      if (!x) return;
      require(takes(role, x.dtype()), "{}: {} is {} {}; its role takes no {}", call->name, field,
              name_of(x.dtype()), x.shape(), name_of(x.dtype()));
      if (!is_activation(role)) return;
      if (!first) first = &x;
      require(x.dtype() == first->dtype(), "{}: {} is {}, another activation {}; want one type", call->name,
              field, name_of(x.dtype()), name_of(first->dtype()));
    });
  };
  visit(check, any);
}

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
