#include "kernels/observers/seen_tensors.h"

#include "kernels/calls_rows.h"

namespace mxtape {
namespace {

void add(std::vector<SeenTensor>& all, std::string name, const Tensor& x) {
  if (x && (x.dtype() == DType::f32 || x.dtype() == DType::bf16)) all.push_back({std::move(name), x});
}

void add_parts(std::vector<SeenTensor>& all, const std::string& name, const Rounded& r,
               const Tensor& elements) {
  add(all, name, elements);
  add(all, name + "'s scales", r.scales);
  add(all, name + "'s multiplier", r.multiplier);
}

/// As a GEMM sees it: leading axes fold into rows.
Tensor folded(const Tensor& x) { return x ? x.reshaped({x.rows(), x.cols()}) : x; }

void add_results(std::vector<SeenTensor>& all, const call::Gemm& gemm) {
  add(all, std::string(product_of(gemm.a.site.slot)), folded(gemm.c));
}
void add_results(std::vector<SeenTensor>& all, const call::Quantize& call) {
  bool of_dy = call.to.empty();  // only a bias wants sums alone
  for (const Rounded& r : call.to) {
    const Slot slot = r.site.slot;
    add_parts(all, slot == Slot::none ? "values" : seen_name_of(slot), r, r.elements);
    of_dy |= tensor_of(slot) == "dy";
  }
  add(all, of_dy ? "bias gradient" : "column sums", call.column_sums);
}
void add_results(std::vector<SeenTensor>& all, const auto& call) {
  call.each(call, [&](Role role, std::string_view field, const Tensor& x) {
    if (is_written(role, field)) add(all, std::string(field), x);
  });
}

}  // namespace

std::vector<SeenTensor> operands_of(AnyCall any) {
  std::vector<SeenTensor> all;
  if (const auto* const gemm = any.as<call::Gemm>())
    for (const Rounded* const side : {&gemm->a, &gemm->b})
      if (is_linear(side->site.slot))
        add_parts(all, seen_name_of(side->site.slot), *side, folded(side->elements));
  return all;
}

std::vector<SeenTensor> results_of(AnyCall any) {
  std::vector<SeenTensor> all;
  visit([&](const auto* call) { add_results(all, *call); }, any);
  return all;
}

}  // namespace mxtape
