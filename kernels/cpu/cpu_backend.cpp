#include "kernels/cpu/cpu_backend.h"

#ifdef __GLIBC__
#include <malloc.h>
#endif
#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <mutex>

#include "core/error.h"
#include "core/normal.h"
#include "core/parallel.h"
#include "kernels/cpu/gemm.h"
#include "kernels/cpu/integer/dots.h"
#include "kernels/cpu/loops/decode_loops.h"
#include "kernels/cpu/loops/tier.h"
#include "kernels/cpu/memory_limit.h"
#include "kernels/cpu/pairs/pairs.h"

namespace mxtape {
namespace {

// Bytes that one range of a memory-bound loop handles: long enough to hide the hand-out, short enough to
// share.
constexpr std::int64_t range_bytes = std::int64_t{1} << 18;

void copy_bytes(void* to, const void* from, std::int64_t bytes) {
  parallel_for(bytes, range_bytes, [&](std::int64_t begin, std::int64_t end) {
    std::memcpy(static_cast<char*>(to) + begin, static_cast<const char*>(from) + begin,
                std::size_t(end - begin));
  });
}

template <class T>
void fill_with(const Tensor& y, T value) {
  T* const out = y.data<T>();
  parallel_for(y.count(), range_bytes / std::int64_t(sizeof(T)),
               [&](std::int64_t begin, std::int64_t end) { std::fill(out + begin, out + end, value); });
}

/// The first number whose exponent field is all ones, or -1.
template <class Bits>
std::int64_t first_nonfinite_of(const Tensor& x, Bits exponent) {
  const auto* const bits = static_cast<const Bits*>(x.raw());
  std::int64_t first = x.count();
  std::mutex mutex;
  const auto is_found = [&](Bits b) { return (b & exponent) == exponent; };
  parallel_for(x.count(), range_bytes / std::int64_t(sizeof(Bits)),
               [&](std::int64_t begin, std::int64_t end) {
                 bool found = false;  // loops without an early exit vectorise
                 for (std::int64_t i = begin; i < end; ++i) found |= is_found(bits[i]);
                 if (!found) return;
                 std::lock_guard lock(mutex);
                 first = std::min(first, std::find_if(bits + begin, bits + end, is_found) - bits);
               });
  return first == x.count() ? -1 : first;
}

/// Large blocks begin on a large page and ask for such pages, which many systems give to nobody else: a step
/// takes 0.93 to 0.98 of its time with them (6 x 384, Xeon).
void* allocate(std::int64_t bytes) {
  constexpr std::size_t line = 64;  // of a cache, and the longest vector register
  constexpr std::size_t large_page = 2 << 20;
  const auto size = std::size_t(bytes);
  void* block = nullptr;
  if (posix_memalign(&block, size < large_page ? line : large_page, size) != 0) return nullptr;
  if (size >= large_page) madvise(block, size, MADV_HUGEPAGE);
  return block;
}

}  // namespace

CpuBackend::CpuBackend(GemmKernels gemms)
    : pool_(Pool::create(allocate, std::free, Pool::Memory::host)), gemm_kernels_(gemms) {
  cpu::tier();  // which throws where MXTAPE_MAX_CPU is wrong
}

std::string CpuBackend::description() const {
  const std::string integers = gemm_kernels_ == GemmKernels::integer
                                   ? fmt::format(", integer GEMMs {}", cpu::name_of(cpu::dot_tier()))
                                   : "";
  return fmt::format("cpu, {}{}, loops {}, {} thread{}", cpu::describe_gemms(), integers,
                     cpu::name_of(cpu::tier()), threads(), threads() == 1 ? "" : "s");
}

void CpuBackend::dispatch(AnyCall any) {
  const auto on_this_device = [this](const auto* call) {
    call->each(*call, [&](Role role, std::string_view field, const Tensor& x) {
      require(!is_activation(role) || !x || x.dtype() == DType::f32, "cpu: {}: {} is {}; want f32",
              call->name, field, name_of(x.dtype()));
    });
    compute(*call);
  };
  visit(on_this_device, any);
}

Tensor CpuBackend::empty(Shape shape, DType dtype) {
  return {pool_->take(shape.count() * size_of(dtype)), shape, dtype};
}

void CpuBackend::upload(const Tensor& y, const void* host) { copy_bytes(y.raw(), host, y.bytes()); }

void CpuBackend::download(void* host, const Tensor& x) { copy_bytes(host, x.raw(), x.bytes()); }

void CpuBackend::compute(const call::Fill& call) {
  if (call.y.dtype() == DType::f32) return fill_with(call.y, call.value);
  require(call.y.dtype() == DType::bf16, "fill: y is {}; want f32 or bf16", name_of(call.y.dtype()));
  fill_with(call.y, to_bf16(call.value));
}

void CpuBackend::compute(const call::Copy& call) {
  require(call.y.count() == call.x.count(), "copy: y is {}, x is {}; want the same size", call.y.shape(),
          call.x.shape());
  if (call.y.dtype() == call.x.dtype()) return copy_bytes(call.y.raw(), call.x.raw(), call.x.bytes());
  const bool widens = call.y.dtype() == DType::f32 && call.x.dtype() == DType::bf16;
  if (widens || (call.y.dtype() == DType::bf16 && call.x.dtype() == DType::f32)) {
    auto* const narrow = static_cast<std::uint16_t*>((widens ? call.x : call.y).raw());
    float* const wide = (widens ? call.y : call.x).data();
    const auto& loops = cpu::decode_loops();
    return parallel_for(call.x.count(), range_bytes / std::int64_t(sizeof(float)),
                        [&](std::int64_t begin, std::int64_t end) {
                          widens ? loops.to_f32.from_bf16(wide + begin, narrow + begin, end - begin, 1.0f)
                                 : loops.to_bf16.from_f32(narrow + begin, wide + begin, end - begin, 1.0f);
                        });
  }
  fail(ExitCode::internal, "copy: y is {}, x is {}; want the same type, or f32 and bf16",
       name_of(call.y.dtype()), name_of(call.x.dtype()));
}

void CpuBackend::compute(const call::Normal& call) {
  float* const out = call.y.data();
  constexpr std::int64_t grain = 4096;
  parallel_for(call.y.count(), grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end;) {
      const std::uint64_t element = call.key.first_element + std::uint64_t(i);
      const auto [first, second] = normal_pair(call.key, element >> 1);
      if ((element & 1) == 0) {
        out[i++] = first * call.deviation;
        if (i == end) break;
      }
      out[i++] = second * call.deviation;
    }
  });
}

// What other processes hold now may be gone or paged out later: the machine's memory is the limit.
std::int64_t CpuBackend::capacity_bytes(int sharing) const { return cpu::memory_limit(sharing); }

void CpuBackend::trim() {
  pool_->trim();
#ifdef __GLIBC__
  malloc_trim(0);  // free() alone keeps pages that lie between blocks in use
#endif
}

std::int64_t CpuBackend::first_nonfinite(const Tensor& x) {
  if (x.dtype() == DType::f32) return first_nonfinite_of<std::uint32_t>(x, 0x7f800000u);
  if (x.dtype() == DType::bf16) return first_nonfinite_of<std::uint16_t>(x, 0x7f80u);
  require(x.dtype() != DType::f64, "first_nonfinite: x is {}", name_of(x.dtype()));
  return -1;  // integers are finite
}

}  // namespace mxtape
