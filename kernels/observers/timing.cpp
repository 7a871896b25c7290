#include "kernels/observers/timing.h"

#include <initializer_list>
#include <optional>
#include <utility>

#include "kernels/extents.h"

namespace mxtape {
namespace {

using Work = Timing::Work;

/// The role of the tensors that a call adds to, and so reads too.
std::optional<Role> if_added(Write write, Role role) {
  return write == Write::accumulate ? std::optional(role) : std::nullopt;
}
std::optional<Role> added_to(const call::Gemm& call) { return if_added(call.write, Role::result); }
std::optional<Role> added_to(const call::Quantize& call) { return if_added(call.sums, Role::sum); }
std::optional<Role> added_to(const call::EmbeddingBackward& call) { return if_added(call.table, Role::sum); }
std::optional<Role> added_to(const auto& call) {
  if constexpr (requires { call.write; })
    return if_added(call.write, Role::sum);
  else
    return {};
}

double bytes_of(const auto& call) {
  double bytes = 0;
  const auto added = added_to(call);
  call.each(call, [&](Role role, std::string_view, const Tensor& x) {
    bytes += double(x.bytes()) * (role == Role::state || role == added ? 2 : 1);
  });
  return bytes;
}

void count_operations(Work& work, const call::Gemm& call) {
  const GemmPath path = gemm_path(call.a.elements.dtype(), call.b.elements.dtype());
  (path == GemmPath::integer ? work.integer_ops
   : path == GemmPath::bf16  ? work.bf16_flops
                             : work.f32_flops) += flops_of(call);
}
/// Of attention's GEMMs, each by its two operands, over what a causal mask leaves: half of the square of as
/// many queries as keys.
/// Unquantized operands are bf16 where the activations are.
void count_attention(Work& work, const auto& call,
                     std::initializer_list<std::pair<AttentionField, AttentionField>> gemms) {
  const AttentionShape& s = call.shape;
  const auto narrow = [&](AttentionField field) {
    const Quantizer& q = call.quant.*field;
    return q.operand_dtype() == DType::bf16 || (q.is_identity() && call.qkv.dtype() == DType::bf16);
  };
  const double seen =
      s.mask == AttentionMask::none ? double(s.keys) : double(s.first_position) + double(s.time) / 2;
  const double flops = 2 * double(s.batch * s.heads) * double(s.time) * seen * double(s.width);
  for (const auto& [a, b] : gemms) (narrow(a) && narrow(b) ? work.bf16_flops : work.f32_flops) += flops;
}
using Slots = AttentionQuant;
void count_operations(Work& work, const call::Attention& call) {
  count_attention(work, call, {{&Slots::qk_q, &Slots::qk_k}, {&Slots::pv_p, &Slots::pv_v}});
}
void count_operations(Work& work, const call::AttentionBackward& call) {
  count_attention(work, call,
                  {{&Slots::qk_q, &Slots::qk_k},
                   {&Slots::dv_p, &Slots::dv_do},
                   {&Slots::dp_do, &Slots::dp_v},
                   {&Slots::dq_ds, &Slots::dq_k},
                   {&Slots::dk_ds, &Slots::dk_q}});
}
void count_operations(Work&, const auto&) {}

std::string slot_of(const call::Gemm& call) { return std::string(gemm_of(call.a.site.slot)); }
std::string slot_of(const call::Quantize& call) {
  if (call.to.empty()) return "dy";  // only a bias wants sums alone
  const Rounded& first = call.to.front();
  return std::string(tensor_of(first.site.slot)) + (first.by.again ? " again" : "");
}
std::string slot_of(const auto&) { return {}; }

}  // namespace

Work& Work::operator+=(const Work& other) {
  calls += other.calls, seconds += other.seconds, bytes += other.bytes;
  bf16_flops += other.bf16_flops, f32_flops += other.f32_flops, integer_ops += other.integer_ops;
  return *this;
}

void Timing::before(const Seen&) { begin_ = std::chrono::steady_clock::now(); }

void Timing::after(const Seen& seen) {
  seen.device.wait();
  const std::chrono::duration<double> time = std::chrono::steady_clock::now() - begin_;
  Work work{.calls = 1, .seconds = time.count()};
  const auto count = [&](const auto* call) {
    work.bytes = bytes_of(*call);
    count_operations(work, *call);
    work_[{std::string(seen.layer), seen.backward, std::string(call->name), slot_of(*call)}] += work;
  };
  visit(count, seen.call);
}

}  // namespace mxtape
