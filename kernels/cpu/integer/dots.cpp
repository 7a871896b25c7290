#include "kernels/cpu/integer/dots.h"

#if defined(__aarch64__)
#include <sys/auxv.h>
#endif

#include <algorithm>
#include <atomic>
#include <cmath>
#include <vector>

#include "core/error.h"
#include "kernels/cpu/loops/tier.h"
#include "kernels/gemm_codes.h"

namespace mxtape::cpu {

using Multiply = void(const DotsJob&, const DotsScratch&);

// integer_dots.cpp, once per tier.
#define MXT_DOTS(tier) \
  namespace tier {     \
  Multiply multiply;   \
  }
#if defined(__x86_64__)
MXT_DOTS(avx2)
MXT_DOTS(avx_vnni)
MXT_DOTS(avx512_vnni)
#elif defined(__aarch64__)
MXT_DOTS(neon)
MXT_DOTS(sdot)
#endif

namespace {

static_assert(longest_segment == longest_code_block);

constexpr std::string_view names[] = {"portable", "avx2", "avx_vnni", "avx512_vnni", "neon", "sdot"};
void plainly(const DotsJob& job, const DotsScratch&) { multiply_codes_plainly(job); }
#if defined(__x86_64__)
constexpr Multiply* loops[] = {plainly, avx2::multiply, avx_vnni::multiply, avx512_vnni::multiply, {}, {}};
#elif defined(__aarch64__)
constexpr Multiply* loops[] = {plainly, {}, {}, {}, neon::multiply, sdot::multiply};
#else
constexpr Multiply* loops[std::size(names)] = {plainly};
#endif

DotTier best_tier() {
  for (const DotTier t :
       {DotTier::avx512_vnni, DotTier::avx_vnni, DotTier::sdot, DotTier::avx2, DotTier::neon})
    if (has_dot_tier(t)) return t;
  return DotTier::portable;
}

std::atomic<DotTier>& current() {
  static std::atomic<DotTier> chosen{best_tier()};
  return chosen;
}

}  // namespace

bool has_dot_tier(DotTier t) {
  if (!loops[std::size_t(t)]) return false;
  switch (t) {
#if defined(__x86_64__)
    case DotTier::avx512_vnni:
      return has_tier(Tier::avx512) && __builtin_cpu_supports("avx512vnni");
    case DotTier::avx_vnni:
      return has_tier(Tier::avx2) && __builtin_cpu_supports("avxvnni");
    case DotTier::avx2:
      return has_tier(Tier::avx2);
#elif defined(__aarch64__)
    case DotTier::sdot:
      return (getauxval(AT_HWCAP) & HWCAP_ASIMDDP) != 0;
#endif
    default:
      return true;
  }
}

DotTier dot_tier() { return current().load(std::memory_order_relaxed); }

void set_dot_tier(DotTier t) {
  require(has_dot_tier(t), ExitCode::usage, "cpu: this machine has no {}", name_of(t));
  current().store(t, std::memory_order_relaxed);
}

std::string_view name_of(DotTier t) { return names[std::size_t(t)]; }

void multiply_codes(const DotsJob& job) {
  thread_local std::vector<std::int32_t> words;
  thread_local std::vector<float> partial;
  constexpr int panel = CodeLayout::panel, quad = CodeLayout::quad;
  const std::int64_t segments = (job.depth + job.segment - 1) / job.segment;
  const auto whole = [&](int lines) { return (job.rows + lines - 1) / lines * lines; };
  words.resize(std::size_t(2 * whole(panel) * segments));
  partial.resize(std::size_t(whole(quad) * DotsScratch::most_cols));
  loops[std::size_t(dot_tier())](job, {words.data(), partial.data()});
}

void multiply_codes_plainly(const DotsJob& job) {
  constexpr int lanes = CodeLayout::panel, quad = CodeLayout::quad;
  const auto code = [](const DotsSide& x, std::int64_t line, std::int64_t k) {
    return std::int32_t{
        x.codes[line / lanes * x.panel_codes + (k / quad * lanes + line % lanes) * quad + k % quad]};
  };
  const auto scale = [](const DotsSide& x, std::int64_t line, std::int64_t s) {
    return x.scales[line / lanes * x.panel_scales + s * lanes + line % lanes];
  };
  for (std::int64_t m = 0; m < job.rows; ++m)
    for (std::int64_t n = 0; n < job.cols; ++n) {
      float sum = 0;
      for (std::int64_t first = 0, s = 0; first < job.depth; first += job.segment, ++s) {
        std::int32_t products = 0;
        for (std::int64_t k = first; k < std::min(job.depth, first + job.segment); ++k)
          products += code(job.a, m, k) * code(job.b, n, k);
        sum = std::fma(float(products) * scale(job.a, m, s), scale(job.b, n, s), sum);
      }
      float& c = job.c[m * job.c_stride + n];
      if (job.factor) sum *= *job.factor;
      if (job.bias) sum += job.bias[n];
      c = job.accumulate ? c + sum : sum;
    }
}

}  // namespace mxtape::cpu
