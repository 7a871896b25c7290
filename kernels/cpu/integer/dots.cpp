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

/// What this build has, the best first.
struct Loop {
  DotTier tier;
  Multiply* multiply;
  bool (*is_here)();
};
constexpr Loop loops[] = {
#if defined(__x86_64__)
    {DotTier::avx512_vnni, avx512_vnni::multiply,
     [] { return has_tier(Tier::avx512) && __builtin_cpu_supports("avx512vnni"); }},
    {DotTier::avx_vnni, avx_vnni::multiply,
     [] { return has_tier(Tier::avx2) && __builtin_cpu_supports("avxvnni"); }},
    {DotTier::avx2, avx2::multiply, [] { return has_tier(Tier::avx2); }},
#elif defined(__aarch64__)
    {DotTier::sdot, sdot::multiply, [] { return (getauxval(AT_HWCAP) & HWCAP_ASIMDDP) != 0; }},
    {DotTier::neon, neon::multiply, [] { return true; }},
#endif
    {DotTier::portable, [](const DotsJob& job, const DotsScratch&) { multiply_codes_plainly(job); },
     [] { return true; }}};

/// Null: not here.
const Loop* find(DotTier t) {
  const auto* const found = std::ranges::find(loops, t, &Loop::tier);
  return found != std::end(loops) && found->is_here() ? found : nullptr;
}

std::atomic<const Loop*>& current() {
  static std::atomic<const Loop*> chosen{
      std::ranges::find_if(loops, [](const Loop& loop) { return loop.is_here(); })};
  return chosen;
}

}  // namespace

bool has_dot_tier(DotTier t) { return find(t) != nullptr; }

DotTier dot_tier() { return current().load(std::memory_order_relaxed)->tier; }

void set_dot_tier(DotTier t) {
  const Loop* const loop = find(t);
  require(loop, ExitCode::usage, "cpu: this machine has no {}", name_of(t));
  current().store(loop, std::memory_order_relaxed);
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
  current().load(std::memory_order_relaxed)->multiply(job, {words.data(), partial.data()});
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
