#pragma once
#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "core/error.h"
#include "kernels/choose/make_backend.h"

/// How the benchmarks of a GPU's kernels measure: two ceilings first, then each call against them.
namespace mxtape {

inline Backend& backend() {
  static const auto instance = make_backend("cuda");
  return *instance;
}

constexpr int calls = 10, samples = 15;

inline void wait() {
  static const Tensor one = backend().empty({1});
  float value = 0;
  backend().download(&value, one);
}

/// Median seconds of a call.
inline double seconds(const std::function<void()>& call) {
  call();
  wait();
  std::vector<double> times;
  for (int i = 0; i < samples; ++i) {
    const auto start = std::chrono::steady_clock::now();
    for (int c = 0; c < calls; ++c) call();
    wait();
    times.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() / calls);
  }
  std::nth_element(times.begin(), times.begin() + samples / 2, times.end());
  return times[samples / 2];
}

inline Tensor random_tensor(Shape shape, DType dtype = DType::bf16) {
  const Tensor x = backend().empty(shape);
  backend().run(call::Normal{x, 1, {.seed = 1, .purpose = Purpose::initialisation}});
  if (dtype == DType::f32) return x;
  const Tensor y = backend().empty(shape, dtype);
  backend().copy(y, x);
  return y;
}
inline Tensor empty(Shape shape, DType dtype = DType::bf16) { return backend().empty(shape, dtype); }

struct Ceilings {
  double bytes = 0, flops = 0;  // a second
};
inline Ceilings ceilings;

inline void measure_ceilings() {
  const Tensor from = random_tensor({std::int64_t{1} << 29}), to = empty(from.shape());
  ceilings.bytes = 2 * double(from.bytes()) / seconds([&] { backend().copy(to, from); });
  constexpr std::int64_t n = 8192;
  const Tensor a = random_tensor({n, n}), b = random_tensor({n, n}), c = empty({n, n});
  ceilings.flops = 2 * double(n) * n * n / seconds([&] {
                     backend().run(call::Gemm{c, unrounded(a), unrounded(b)});
                   });
  benchmark::AddCustomContext("copy", fmt::format("{:.0f} GB/s", ceilings.bytes / 1e9));
  benchmark::AddCustomContext("bf16 product", fmt::format("{:.0f} TFLOP/s", ceilings.flops / 1e12));
}

/// What a benchmark calls, and the least that a call has to do.
struct Work {
  std::function<void()> call;
  double bytes = 0, flops = 0;
};

/// A benchmark called `name` of what `make` makes when its turn comes.
inline void add(const std::string& name, const std::function<Work()>& make) {
  benchmark::RegisterBenchmark(name.c_str(),
                               [make](benchmark::State& state) {
                                 try {
                                   const Work work = make();
                                   for (auto _ : state) {
                                     const double time = seconds(work.call);
                                     state.SetIterationTime(time);
                                     if (work.bytes > 0) {
                                       state.counters["GB/s"] = work.bytes / time / 1e9;
                                       state.counters["%copy"] = 100 * work.bytes / time / ceilings.bytes;
                                     }
                                     if (work.flops > 0) {
                                       state.counters["TFLOP/s"] = work.flops / time / 1e12;
                                       state.counters["%product"] = 100 * work.flops / time / ceilings.flops;
                                     }
                                   }
                                 } catch (const Error& e) {
                                   state.SkipWithError(e.what());
                                 }
                                 backend().trim();
                               })
      ->UseManualTime()
      ->Iterations(1)
      ->Unit(benchmark::kMicrosecond);
}

}  // namespace mxtape
