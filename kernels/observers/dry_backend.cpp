#include "kernels/observers/dry_backend.h"

#include <cstring>
#include <utility>

#include "kernels/attention/scratch.h"
#include "kernels/extents.h"
#include "kernels/observers/forwarding_backend.h"

namespace mxtape {

// Addresses that differ, as tensors may share storage, and that no pointer can be: for 2^62 bytes in all.
DryBackend::DryBackend(Memory memory, std::optional<AttentionKernels> gpu_attention, GemmKernels kernels)
    : memory_(memory),
      gpu_attention_(gpu_attention),
      pool_(Pool::create(
          [next = std::uintptr_t{1} << 63](std::int64_t bytes) mutable {
            const std::uintptr_t end = next + std::uintptr_t(bytes);
            return end >> 62 == 2 ? reinterpret_cast<void*>(std::exchange(next, end)) : nullptr;
          },
          [](void*) {})),
      arena_(pool_),
      kernels_(kernels) {}

Tensor DryBackend::empty(Shape shape, DType dtype) {
  return {arena_.take(shape.count() * size_of(dtype)), shape, dtype};
}

std::vector<Tensor> DryBackend::repeat(const std::string& name,
                                       const std::function<std::vector<Tensor>()>& work) {
  if (memory_ == Memory::pool) return work();
  std::vector<Tensor> results;
  if (arena_.run(name, [&] { results = work(); }) && memory_ == Memory::recorded) arena_.pin(name);
  return results;
}

bool merely_counts(const Backend& backend) {
  if (const auto* const around = dynamic_cast<const ForwardingBackend*>(&backend))
    return merely_counts(around->inner());
  return dynamic_cast<const DryBackend*>(&backend) != nullptr;
}

void DryBackend::download(void* host, const Tensor& x) { std::memset(host, 0, std::size_t(x.bytes())); }

void DryBackend::dispatch(AnyCall any) {
  visit([&](const auto* call) { count(*call); }, any);
}

void DryBackend::count(const call::Gemm& call) {
  const DType a = call.a.elements.dtype(), b = call.b.elements.dtype();
  last_gemm_ = gemm_path(a, b);
  Gemms& gemms = last_gemm_ == GemmPath::integer ? integer_ : a == b && a == DType::bf16 ? bf16_ : f32_;
  ++gemms.calls;
  gemms.flops += flops_of(call);
}

// As the devices' compute() take it: at most, as the CPU rotates what it can in the cache.
void DryBackend::count(const call::Quantize& call) {
  for (const Rounded& r : call.to)
    if (r.by.rotation.size != 0) empty(call.x.shape(), call.x.dtype());
}

void DryBackend::count(const call::QuantizeBackward& call) {
  const bool turns = call.by.rotation.size != 0, bends = call.ste.kind != SteKind::identity;
  if (!turns) return;
  const auto scratch = [&] { return empty(call.dy.shape(), call.dy.dtype()); };
  Tensor gradient = call.rotated ? Tensor{} : scratch();
  if (bends) {
    const Tensor x = scratch(), bent = scratch();
    gradient = bent;
  }
  scratch();  // the gradient rotated back
}

void DryBackend::count(const call::Attention& call) {
  if (gpu_attention_)
    empty({attention_scratch(*gpu_attention_, call.shape, call.quant, call.qkv.dtype()).forward}, DType::u8);
}

void DryBackend::count(const call::AttentionBackward& call) {
  if (gpu_attention_)
    empty({attention_scratch(*gpu_attention_, call.shape, call.quant, call.qkv.dtype()).backward}, DType::u8);
}

}  // namespace mxtape
