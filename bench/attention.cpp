// Attention with bf16 operands on a CPU, with the widest instructions for bf16 and by loops without
// (kernels/cpu/pairs/), in turns.
//
//   build/bench/bench_attention [--benchmark_filter=forward]
//
// `faster` is the median of the loops' processor time over that with instructions. `peak` is the part of the
// latter that products would take at the rate of AMX, or of dot products of bf16, without memory; products
// are those of keys that a query sees. Both are processor time of one thread, which other processes disturb
// less than wall time. `peak flop/s` is that rate.
#include <benchmark/benchmark.h>
#include <time.h>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include <algorithm>
#include <string>
#include <vector>

#include "core/parallel.h"
#include "kernels/calls_rows.h"
#include "kernels/choose/make_backend.h"
#include "kernels/cpu/gemm.h"
#include "kernels/cpu/pairs/pairs.h"

namespace mxtape {
namespace {

Backend& backend() {
  static const auto instance = make_backend("cpu", {});
  return *instance;
}

double processor_seconds() {
  timespec t;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return double(t.tv_sec) + 1e-9 * double(t.tv_nsec);
}

double median(std::vector<double> all) {
  std::nth_element(all.begin(), all.begin() + std::ptrdiff_t(all.size() / 2), all.end());
  return all[all.size() / 2];
}

#if defined(__x86_64__)
__attribute__((target("avx512f,avx512bf16"))) double dots_of_a_loop() {
  constexpr int chains = 12, rounds = 2000000;  // as many as hide the latency
  __m512 sums[chains] = {};
  __m512i a = _mm512_set1_epi16(0x3f80), b = a;
  asm volatile("" : "+v"(a), "+v"(b));
  for (__m512& sum : sums) asm volatile("" : "+v"(sum));  // chains that are alike would be computed once
  for (int i = 0; i < rounds; ++i)
#pragma GCC unroll 12
    for (int k = 0; k < chains; ++k) sums[k] = _mm512_dpbf16_ps(sums[k], (__m512bh)a, (__m512bh)b);
  for (__m512& sum : sums) benchmark::DoNotOptimize(sum);
  return double(rounds) * chains * 64;
}

double tiles_of_a_loop() {
  constexpr int chains = 4, rounds = 2000000;
  alignas(64) std::uint8_t shapes[64] = {1};  // 16 rows of 64 bytes each
  for (int i = 0; i < 8; ++i) shapes[16 + 2 * i] = 64, shapes[48 + i] = 16;
  asm volatile("ldtilecfg %0" ::"m"(shapes));
  for (int i = 0; i < rounds; ++i)
    asm volatile(
        "tdpbf16ps %tmm6, %tmm4, %tmm0\n tdpbf16ps %tmm7, %tmm4, %tmm1\n"
        "tdpbf16ps %tmm6, %tmm5, %tmm2\n tdpbf16ps %tmm7, %tmm5, %tmm3");
  asm volatile("tilerelease");
  return double(rounds) * chains * 2 * 16 * 16 * 32;
}
#endif
const cpu::PairTier widest = [] {
  using enum cpu::PairTier;
  return cpu::has_pair_tier(amx_bf16) ? amx_bf16 : cpu::has_pair_tier(avx512_bf16) ? avx512_bf16 : loops;
}();

/// flop a second of one thread, or 0 where there are no instructions for bf16.
double peak_of_products() {
#if defined(__x86_64__)
  std::vector<double> rates;
  for (int i = 0; i < 9 && widest != cpu::PairTier::loops; ++i) {
    const double start = processor_seconds();
    const double flops = widest == cpu::PairTier::amx_bf16 ? tiles_of_a_loop() : dots_of_a_loop();
    rates.push_back(flops / (processor_seconds() - start));
  }
  if (!rates.empty()) return median(rates);
#endif
  return 0;
}

Tensor random_tensor(Shape shape) {
  const Tensor x = backend().empty(shape);
  backend().run(call::Normal{x, 1, {.seed = 1, .purpose = Purpose::initialisation}});
  return x;
}

void attention(benchmark::State& state, AttentionShape s, bool back) {
  AttentionQuant quant;
  for (const auto field :
       {&AttentionQuant::qk_q, &AttentionQuant::qk_k, &AttentionQuant::pv_p, &AttentionQuant::pv_v,
        &AttentionQuant::dv_p, &AttentionQuant::dv_do, &AttentionQuant::dp_do, &AttentionQuant::dp_v,
        &AttentionQuant::dq_ds, &AttentionQuant::dq_k, &AttentionQuant::dk_ds, &AttentionQuant::dk_q})
    quant.*field = bf16_cast;
  const Shape wide{s.batch, s.time, s.q_row()}, narrow{s.batch, s.time, s.heads * s.width};
  const Tensor qkv = random_tensor(wide), d_o = random_tensor(narrow), dqkv = backend().empty(wide);
  const Tensor o = backend().empty(narrow), lse = backend().empty({s.batch, s.heads, s.time});
  const auto run = [&](bool instructions) {
    cpu::set_pair_tier(instructions ? widest : cpu::PairTier::loops);
    const double start = processor_seconds();
    if (back)
      backend().run(call::AttentionBackward{dqkv, d_o, qkv, o, lse, s, quant});
    else
      backend().run(call::Attention{o, lse, qkv, s, quant});
    return processor_seconds() - start;
  };
  backend().run(call::Attention{o, lse, qkv, s, quant});
  run(false), run(true);
  std::vector<double> ratios, seconds;
  for (auto _ : state) {
    const double loops = run(false), best = run(true);
    state.SetIterationTime(best);
    ratios.push_back(loops / best);
    seconds.push_back(best);
  }
  const double products = double(s.batch * s.heads) * double(s.time) * double(s.time + 1) / 2;
  const double flops = 2 * products * double(s.width) * (back ? 5 : 2);
  static const double peak = peak_of_products();
  state.counters["faster"] = median(ratios);
  if (peak > 0) state.counters["peak"] = flops / median(seconds) / peak;
  if (peak > 0) state.counters["peak flop/s"] = peak;
  state.counters["flop/s"] = benchmark::Counter(flops, benchmark::Counter::kIsIterationInvariantRate);
}

void register_all() {
  for (const AttentionShape& s : {AttentionShape{12, 64, 4, 32}, AttentionShape{16, 256, 6, 64},
                                  AttentionShape{4, 64, 12, 64}, AttentionShape{1, 1024, 12, 64}})
    for (const bool back : {false, true})
      benchmark::RegisterBenchmark(
          fmt::format("{}/{}x{}x{}x{}", back ? "backward" : "forward", s.batch, s.time, s.heads, s.width)
              .c_str(),
          attention, s, back)
          ->UseManualTime()
          ->Unit(benchmark::kMicrosecond);
}

}  // namespace
}  // namespace mxtape

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  mxtape::set_threads(1);
  benchmark::AddCustomContext("backend", mxtape::backend().description());
  if (mxtape::widest != mxtape::cpu::PairTier::loops) mxtape::register_all();
  benchmark::RunSpecifiedBenchmarks();
}
