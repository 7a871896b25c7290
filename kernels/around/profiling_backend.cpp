#include "kernels/around/profiling_backend.h"

#include <chrono>

#include "kernels/attention_slots.h"

namespace mxtape {
namespace {

using Work = ProfilingBackend::Work;

double bytes_of(const auto& call) {
  double bytes = 0;
  call.each(call, [&](Role role, std::string_view, const Tensor& x) {
    bytes += double(x.bytes()) * (role == Role::state ? 2 : 1);
  });
  return bytes;
}

void add_operations(Work& work, double flops, bool bf16) {
  (bf16 ? work.bf16_flops : work.f32_flops) += flops;
}

void count_operations(Work& work, const call::Gemm& call) {
  const Tensor &a = call.a.values, &b = call.b.values;
  const std::int64_t k = call.a.trans == Trans::yes ? a.rows() : a.cols();
  add_operations(work, 2.0 * double(call.c.count()) * double(k),
                 a.dtype() == DType::bf16 && b.dtype() == DType::bf16);
}
/// Of `products` GEMMs over the half of the square that a causal mask leaves.
void count_attention(Work& work, const AttentionShape& s, const AttentionQuant& quant, double products) {
  const double flops =
      double(s.batch * s.heads) * double(s.time) * double(s.time) * double(s.width) * products;
  add_operations(work, flops, !every_operand_is(quant, f32_passthrough));
}
void count_operations(Work& work, const call::Attention& call) {
  count_attention(work, call.shape, call.quant, 2);
}
void count_operations(Work& work, const call::AttentionBackward& call) {
  count_attention(work, call.shape, call.quant, 5);
}
void count_operations(Work&, const auto&) {}

std::string slot_of(const auto& call) {
  if constexpr (requires { call.slot; })
    return std::string(call.slot);
  else
    return {};
}

}  // namespace

Work& Work::operator+=(const Work& other) {
  calls += other.calls, seconds += other.seconds, bytes += other.bytes;
  bf16_flops += other.bf16_flops, f32_flops += other.f32_flops;
  return *this;
}

void ProfilingBackend::enter(std::string_view layer, bool backward) {
  layer_ = layer;
  backward_ = backward;
  inner_.enter(layer, backward);
}

void ProfilingBackend::dispatch(AnyCall any) {
  using Clock = std::chrono::steady_clock;
  const auto begin = Clock::now();
  inner_.dispatch(any);
  inner_.wait();
  Work work{.calls = 1, .seconds = std::chrono::duration<double>(Clock::now() - begin).count()};
  const auto count = [&](const auto* call) {
    work.bytes = bytes_of(*call);
    count_operations(work, *call);
    work_[{layer_, backward_, std::string(call->name), slot_of(*call)}] += work;
  };
  std::visit(count, any);
}

}  // namespace mxtape
