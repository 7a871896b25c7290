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

}  // namespace mxtape
