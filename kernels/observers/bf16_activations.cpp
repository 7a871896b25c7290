#include "kernels/observers/bf16_activations.h"

#include <type_traits>
#include <utility>
#include <vector>

#include "core/error.h"
#include "kernels/calls_rows.h"

namespace mxtape {

Tensor Bf16Activations::widened(const Tensor& x) {
  const Tensor wide = inner_.empty(x.shape());
  inner_.copy(wide, x);
  return wide;
}

void Bf16Activations::adapt(call::Gemm& wide, const call::Gemm& asked) {
  if (asked.c.dtype() != DType::bf16) return;
  require(asked.write == Write::overwrite,
          "gemm: c is bf16 and added to; want f32, or a bf16 c that is overwritten");
  if (!asked.bias) return;
  const Tensor narrow = inner_.empty(asked.bias.shape(), DType::bf16);
  inner_.copy(narrow, asked.bias);
  wide.bias = widened(narrow);
}

void Bf16Activations::dispatch(AnyCall any) {
  const auto is_narrow = [](Role role, const Tensor& x) {
    return is_activation(role) && x && x.dtype() == DType::bf16;
  };
  const auto compute = [&](const auto* call) {
    bool narrow = false;
    call->each(*call, [&](Role role, std::string_view, const Tensor& x) { narrow |= is_narrow(role, x); });
    if (!narrow) return inner_.dispatch(call);

    auto wide = *call;
    std::vector<std::pair<Tensor, Tensor>> results;  // as asked for, in f32
    call->each(wide, [&](Role role, std::string_view field, auto& x) {
      if constexpr (std::is_same_v<decltype(x), Tensor&>) {  // spans of tensors hold no activations
        if (!is_narrow(field == "qkv" || field == "kv" ? Role::activation : role, x)) return;
        if (role != Role::result) {
          x = widened(x);
        } else {
          const Tensor y = inner_.empty(x.shape());
          results.emplace_back(std::exchange(x, y), y);
        }
      }
    });
    adapt(wide, *call);
    inner_.dispatch(&std::as_const(wide));
    for (const auto& [y, x] : results) inner_.copy(y, x);
  };
  visit(compute, any);
}

}  // namespace mxtape
