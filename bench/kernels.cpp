// Kernels of the CPU backend one by one: quantization against a plain f32 to bf16 conversion of the same
// tensor, and GEMM rates.
//
//   build/bench/bench_kernels [--benchmark_filter=quantize]
//
// Limits. A conversion reads 4 bytes an element and writes 2; a cache line that is written is read first, so
// 8 bytes move. One copy moves as much (1.0x the conversion), two copies 12 bytes (1.5x); what is above that
// is arithmetic: about 20 vector instructions per 16 elements for a copy, and 20 more for random numbers.
// `bytes_per_second` counts 4 + 2 or 4 + 2 + 2 bytes. `relative` is the time over that of the conversion,
// measured in turns in the same run. GEMM's limit is the machine's multiply rate: 64 bf16 or 32 f32 flop a
// cycle and core on AVX-512 with one 512-bit multiplier's width a cycle, double with two, 1024 bf16 with AMX.
//
// gemm_codes multiplies integer codes, each repetition in turn with the library's bf16 GEMM of the same
// operands: `faster` is the median of bf16's time over its own, `faster_cpu` the same of the processor time
// of all threads, which other processes disturb less. `peak` is its part of the rate of byte dot products
// that need no memory, all threads together.
#include <benchmark/benchmark.h>
#include <time.h>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include <algorithm>
#include <chrono>
#include <string>
#include <vector>

#include "core/parallel.h"
#include "kernels/choose/make_backend.h"
#include "kernels/cpu/integer/dots.h"
#include "kernels/narrow.h"

namespace mxtape {
namespace {

Backend& backend() {
  static const auto instance = make_backend("cpu", {.gemm = GemmKernels::integer});
  return *instance;
}

Tensor random_tensor(Shape shape, DType dtype = DType::f32) {
  const Tensor x = backend().empty(shape);
  backend().run(call::Normal{x, 1, {.seed = 1, .purpose = Purpose::initialisation}});
  if (dtype == DType::f32) return x;
  const Tensor y = backend().empty(shape, dtype);
  backend().copy(y, x);
  return y;
}

double seconds(const auto& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
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

Rounded copy_for(const std::string& text, Axis axis, Shape shape, Layout layout = Layout::values) {
  return with_room(backend(), wanted(parse_quantizer(text), axis, shape, layout));
}

/// The copies of a [rows, cols] tensor in one call, each repetition in turn with a plain conversion.
void quantize(benchmark::State& state, const std::string& format, std::vector<Axis> axes, Shape shape,
              Layout layout) {
  const Tensor x = random_tensor(shape);
  std::vector<Rounded> copies, plain{copy_for("bf16", Axis::row, shape)};
  for (const Axis axis : axes) copies.push_back(copy_for(format, axis, shape, layout));
  std::vector<double> ratios;
  std::uint32_t step = 0;
  for (auto _ : state) {
    const double conversion = seconds([&] { backend().run(call::Quantize{plain, x}); });
    for (Rounded& copy : copies) copy.by.draws.step = step;
    ++step;
    const double time = seconds([&] { backend().run(call::Quantize{copies, x}); });
    state.SetIterationTime(time);
    ratios.push_back(time / conversion);
  }
  state.counters["relative"] = median(ratios);
  std::int64_t bytes = x.bytes();
  for (const Rounded& copy : copies) bytes += copy.bytes();
  state.SetBytesProcessed(state.iterations() * bytes);
  state.SetItemsProcessed(state.iterations() * x.count());
}

/// A gradient through a rounding with ste=mask.
void masked_gradient(benchmark::State& state, const std::string& format, Axis axis, Shape shape) {
  const Tensor x = random_tensor(shape), dy = random_tensor(shape), dx = backend().empty(shape);
  const call::QuantizeBackward call{.dx = dx,
                                    .dy = dy,
                                    .x = x,
                                    .by = {.quantizer = parse_quantizer(format), .axis = axis},
                                    .ste = {.kind = SteKind::mask}};
  for (auto _ : state) backend().run(call);
  state.SetBytesProcessed(state.iterations() * 3 * x.bytes());
}

/// c[M, N] = a b in the orders of the three products of a linear layer.
void gemm(benchmark::State& state, DType dtype, Axis a_axis, Axis b_axis) {
  const std::int64_t M = state.range(0), N = state.range(1), K = state.range(2);
  const Tensor a = random_tensor(a_axis == Axis::row ? Shape{M, K} : Shape{K, M}, dtype);
  const Tensor b = random_tensor(b_axis == Axis::row ? Shape{N, K} : Shape{K, N}, dtype);
  const Tensor c = backend().empty({M, N});
  for (auto _ : state) backend().run(call::Gemm{c, unrounded(a, a_axis), unrounded(b, b_axis)});
  state.counters["flop/s"] = benchmark::Counter(2.0 * double(M) * double(N) * double(K),
                                                benchmark::Counter::kIsIterationInvariantRate);
}

#if defined(__x86_64__)
__attribute__((target("avx512f,avx512bw,avx512vnni"))) double dots_of_a_loop() {
  constexpr int chains = 12, rounds = 4000000;  // as many as hide the latency
  __m512i sums[chains] = {}, a = _mm512_set1_epi8(1), b = _mm512_set1_epi8(2);
  asm volatile("" : "+v"(a), "+v"(b));
  for (__m512i& sum : sums) asm volatile("" : "+v"(sum));  // chains that are alike would be computed once
  for (int i = 0; i < rounds; ++i)
#pragma GCC unroll 12
    for (int k = 0; k < chains; ++k) sums[k] = _mm512_dpbusd_epi32(sums[k], a, b);
  for (__m512i& sum : sums) benchmark::DoNotOptimize(sum);
  return double(rounds) * chains * 128;
}
#endif
/// Operations a second and thread of byte dot products, or 0 where the bench has no loop for them.
double byte_dot_peak() {
#if defined(__x86_64__)
  std::vector<double> rates;
  for (int i = 0; i < 9 && cpu::has_dot_tier(cpu::DotTier::avx512_vnni); ++i) {
    const double start = processor_seconds();
    const double operations = dots_of_a_loop();
    rates.push_back(operations / (processor_seconds() - start));
  }
  if (!rates.empty()) return median(rates);
#endif
  return 0;
}

void gemm_codes(benchmark::State& state, const std::string& format, Axis a_axis, Axis b_axis) {
  const std::int64_t M = state.range(0), N = state.range(1), K = state.range(2);
  const auto side = [&](Axis axis, std::int64_t lines, Layout layout) {
    const Shape shape = axis == Axis::row ? Shape{lines, K} : Shape{K, lines};
    Rounded copy = copy_for(format, axis, shape, layout);
    backend().run(call::Quantize{{&copy, 1}, random_tensor(shape)});
    return copy;
  };
  const auto sides = [&](Layout layout) {
    return std::pair{side(a_axis, M, layout), side(b_axis, N, layout)};
  };
  const auto [a, b] = sides(Layout::codes);
  const auto [wide_a, wide_b] = sides(Layout::values);
  const Tensor c = backend().empty({M, N});
  const auto multiply = [&](const Rounded& x, const Rounded& y) {
    const double cpu = processor_seconds(), wall = seconds([&] { backend().run(call::Gemm{c, x, y}); });
    return std::pair{wall, processor_seconds() - cpu};
  };
  multiply(wide_a, wide_b), multiply(a, b);
  std::vector<double> ratios, cpu_ratios, cpu_seconds;
  for (auto _ : state) {
    const auto theirs = multiply(wide_a, wide_b), ours = multiply(a, b);
    state.SetIterationTime(ours.first);
    ratios.push_back(theirs.first / ours.first);
    cpu_ratios.push_back(theirs.second / ours.second);
    cpu_seconds.push_back(ours.second);
  }
  const double work = 2.0 * double(M) * double(N) * double(K);
  state.counters["faster"] = median(ratios);
  state.counters["faster_cpu"] = median(cpu_ratios);
  static const double peak = byte_dot_peak();
  if (peak > 0) state.counters["peak"] = work / median(cpu_seconds) / peak;
  state.counters["op/s"] = benchmark::Counter(work, benchmark::Counter::kIsIterationInvariantRate);
}

/// `bytes_per_second` counts what is read and what is written.
void packed_copy(benchmark::State& state, const std::string& format, Layout layout, bool pack) {
  const Shape shape{4096, 1536};
  const Rounded copy = copy_for(format, Axis::column, shape, layout);
  backend().run(call::Quantize{{&copy, 1}, random_tensor(shape)});
  Rounded packed = copy;
  packed.layout = narrowed(layout);
  packed = with_room(backend(), packed);
  backend().run(call::Recode{packed, copy});
  for (auto _ : state) backend().run(pack ? call::Recode{packed, copy} : call::Recode{copy, packed});
  state.SetBytesProcessed(state.iterations() * (copy.bytes() + packed.bytes()));
}

void name_and_register(const std::string& name, const char* format, Axis a, Axis b,
                       const std::vector<std::int64_t>& extents) {
  benchmark::RegisterBenchmark(name.c_str(), gemm_codes, std::string(format), a, b)
      ->Args(extents)
      ->UseManualTime()
      ->Unit(benchmark::kMicrosecond);
}

void register_all() {
  for (const auto& [format, layout] : {std::pair{"mxfp4", Layout::codes},
                                       {"mxfp6_e2m3", Layout::codes},
                                       {"nvfp4", Layout::codes},
                                       {"mxfp4", Layout::values},
                                       {"mxfp6", Layout::values},
                                       {"mxfp8", Layout::values}})
    for (const bool pack : {true, false})
      benchmark::RegisterBenchmark((std::string(pack ? "pack" : "unpack") + "_copy/" + format +
                                    (layout == Layout::codes ? "/codes" : "/values"))
                                       .c_str(),
                                   packed_copy, std::string(format), layout, pack);
  const Shape large{4096, 1536}, small{768, 512};
  const auto quantize_named = [](std::string name, std::string format, std::vector<Axis> axes, Shape shape,
                                 Layout layout = Layout::values) {
    name = "quantize/" + name + "/" + std::to_string(shape[0]) + "x" + std::to_string(shape[1]);
    benchmark::RegisterBenchmark(name.c_str(), quantize, format, axes, shape, layout)
        ->UseManualTime()
        ->Unit(benchmark::kMicrosecond);
  };
  const std::string stochastic = "mxfp4 round=stochastic";
  for (const Shape shape : {large, small}) {
    quantize_named("bf16", "bf16", {Axis::row}, shape);
    for (const char* format : {"mxfp4", "mxfp8_e4m3", "mxint8", "nvfp4"}) {
      quantize_named(std::string(format) + "/rows", format, {Axis::row}, shape);
      quantize_named(std::string(format) + "/columns", format, {Axis::column}, shape);
      quantize_named(std::string(format) + "/both", format, {Axis::row, Axis::column}, shape);
    }
    for (const auto& [name, format] : {std::pair{"mxfp4_codes", "mxfp4"}, {"nvfp4_codes", "nvfp4"}}) {
      quantize_named(std::string(name) + "/rows", format, {Axis::row}, shape, Layout::codes);
      quantize_named(std::string(name) + "/columns", format, {Axis::column}, shape, Layout::codes);
      quantize_named(std::string(name) + "/both", format, {Axis::row, Axis::column}, shape, Layout::codes);
    }
    for (const auto& [name, format] : {std::pair{"mxfp4_rms", "mxfp4 statistic=rms rule=rnearest"},
                                       {"nvfp4_eden", "nvfp4 eden scale.round=stochastic alpha=1.012"},
                                       {"nvfp4_up", "nvfp4 scale.round=up"},
                                       {"mxfp4_of_8", "mxfp4 block=8"}})
      for (const Axis axis : {Axis::row, Axis::column}) {
        const std::string along = axis == Axis::row ? "/rows" : "/columns";
        quantize_named(name + along, format, {axis}, shape);
        benchmark::RegisterBenchmark(
            fmt::format("quantize_mask/{}{}/{}x{}", name, along, shape[0], shape[1]).c_str(), masked_gradient,
            std::string(format), axis, shape)
            ->UseRealTime()
            ->Unit(benchmark::kMicrosecond);
      }
    quantize_named("mxfp4_codes_stochastic/both", stochastic, {Axis::row, Axis::column}, shape,
                   Layout::codes);
    quantize_named("mxfp4_stochastic/rows", stochastic, {Axis::row}, shape);
    quantize_named("mxfp4_stochastic/both", stochastic, {Axis::row, Axis::column}, shape);
  }
  for (const char* format : {"mxfp4", "mxint8", "nvfp4", "nvfp4 block=16x16", "int4 block=16 scale=e4m3"}) {
    const auto register_codes = [&](const char* name, Axis a, Axis b, std::vector<std::int64_t> extents) {
      name_and_register(std::string("gemm_codes/") + format + "/" + name, format, a, b, extents);
    };
    register_codes("fprop", Axis::row, Axis::row, {4096, 1536, 384});
    register_codes("dgrad", Axis::row, Axis::column, {4096, 384, 1536});
    register_codes("wgrad", Axis::column, Axis::column, {1536, 384, 4096});
    register_codes("small_fprop", Axis::row, Axis::row, {768, 128, 128});
    register_codes("small_wgrad", Axis::column, Axis::column, {128, 128, 768});
  }
  // Linear layers of 6 layers x 384 wide at 16 x 256 tokens, and the head of GPT-2 at 4 x 64.
  for (const DType dtype : {DType::bf16, DType::f32}) {
    const std::string type(name_of(dtype));
    const auto register_gemm = [&](const char* name, Axis a, Axis b, std::vector<std::int64_t> extents) {
      benchmark::RegisterBenchmark(("gemm/" + type + "/" + name).c_str(), gemm, dtype, a, b)
          ->Args(extents)
          ->UseRealTime()
          ->Unit(benchmark::kMicrosecond);
    };
    register_gemm("fprop", Axis::row, Axis::row, {4096, 1536, 384});
    register_gemm("dgrad", Axis::row, Axis::column, {4096, 384, 1536});
    register_gemm("wgrad", Axis::column, Axis::column, {1536, 384, 4096});
    register_gemm("small_fprop", Axis::row, Axis::row, {768, 128, 128});
    register_gemm("small_wgrad", Axis::column, Axis::column, {128, 128, 768});
    register_gemm("head_fprop", Axis::row, Axis::row, {256, 50257, 768});
  }
}

}  // namespace
}  // namespace mxtape

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  benchmark::AddCustomContext("backend", mxtape::backend().description());
  mxtape::register_all();
  benchmark::RunSpecifiedBenchmarks();
}
