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
#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <string>
#include <vector>

#include "core/parallel.h"
#include "kernels/choose/make_backend.h"

namespace mxtape {
namespace {

Backend& backend() {
  static const auto instance = make_backend("cpu");
  return *instance;
}

Tensor random_tensor(Shape shape, DType dtype = DType::f32) {
  const Tensor x = backend().empty(shape);
  backend().run(call::Normal{x, 1, {.seed = 1, .purpose = Purpose::initialisation}});
  if (dtype == DType::f32) return x;
  QuantizedCopy copy{.quantizer = bf16_cast, .values = backend().empty(shape, dtype)};
  backend().run(call::Quantize{{&copy, 1}, x, {}});
  return copy.values;
}

double seconds(const auto& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

QuantizedCopy copy_for(const std::string& text, Axis axis, Shape shape) {
  QuantizedCopy copy{.quantizer = parse_quantizer(text), .axis = axis};
  copy.values = backend().empty(shape, copy.quantizer.operand_dtype());
  if (copy.quantizer.has_multiplier()) copy.multiplier = backend().empty({1});
  return copy;
}

/// The copies of a [rows, cols] tensor in one call, each repetition in turn with a plain conversion.
void quantize(benchmark::State& state, const std::string& format, std::vector<Axis> axes, Shape shape) {
  const Tensor x = random_tensor(shape);
  std::vector<QuantizedCopy> copies, plain{copy_for("bf16", Axis::row, shape)};
  for (const Axis axis : axes) copies.push_back(copy_for(format, axis, shape));
  std::vector<double> ratios;
  std::uint32_t step = 0;
  for (auto _ : state) {
    const double conversion = seconds([&] { backend().run(call::Quantize{plain, x, {}}); });
    const double time = seconds([&] { backend().run(call::Quantize{copies, x, {.step = step++}}); });
    state.SetIterationTime(time);
    ratios.push_back(time / conversion);
  }
  std::nth_element(ratios.begin(), ratios.begin() + std::ptrdiff_t(ratios.size() / 2), ratios.end());
  state.counters["relative"] = ratios[ratios.size() / 2];
  state.SetBytesProcessed(state.iterations() * x.count() * std::int64_t(4 + 2 * axes.size()));
  state.SetItemsProcessed(state.iterations() * x.count());
}

/// c[M, N] = a b in the orders of the three products of a linear layer.
void gemm(benchmark::State& state, DType dtype, Trans a_trans, Trans b_trans) {
  const std::int64_t M = state.range(0), N = state.range(1), K = state.range(2);
  const Tensor a = random_tensor(a_trans == Trans::yes ? Shape{K, M} : Shape{M, K}, dtype);
  const Tensor b = random_tensor(b_trans == Trans::yes ? Shape{N, K} : Shape{K, N}, dtype);
  const Tensor c = backend().empty({M, N});
  for (auto _ : state) backend().run(call::Gemm{c, {a, a_trans}, {b, b_trans}});
  state.counters["flop/s"] = benchmark::Counter(2.0 * double(M) * double(N) * double(K),
                                                benchmark::Counter::kIsIterationInvariantRate);
}

void register_all() {
  const Shape large{4096, 1536}, small{768, 512};
  const auto quantize_named = [](std::string name, std::string format, std::vector<Axis> axes, Shape shape) {
    name = "quantize/" + name + "/" + std::to_string(shape[0]) + "x" + std::to_string(shape[1]);
    benchmark::RegisterBenchmark(name.c_str(), quantize, format, axes, shape)
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
    quantize_named("mxfp4_stochastic/rows", stochastic, {Axis::row}, shape);
    quantize_named("mxfp4_stochastic/both", stochastic, {Axis::row, Axis::column}, shape);
  }
  // Linear layers of 6 layers x 384 wide at 16 x 256 tokens, and the head of GPT-2 at 4 x 64.
  for (const DType dtype : {DType::bf16, DType::f32}) {
    const std::string type(name_of(dtype));
    const auto register_gemm = [&](const char* name, Trans a, Trans b, std::vector<std::int64_t> extents) {
      benchmark::RegisterBenchmark(("gemm/" + type + "/" + name).c_str(), gemm, dtype, a, b)
          ->Args(extents)
          ->UseRealTime()
          ->Unit(benchmark::kMicrosecond);
    };
    register_gemm("fprop", Trans::no, Trans::yes, {4096, 1536, 384});
    register_gemm("dgrad", Trans::no, Trans::no, {4096, 384, 1536});
    register_gemm("wgrad", Trans::yes, Trans::no, {1536, 384, 4096});
    register_gemm("small_fprop", Trans::no, Trans::yes, {768, 128, 128});
    register_gemm("small_wgrad", Trans::yes, Trans::no, {128, 128, 768});
    register_gemm("head_fprop", Trans::no, Trans::yes, {256, 50257, 768});
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
