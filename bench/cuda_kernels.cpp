// Kernels of the CUDA backend on the tensors of GPT-2 124M, 64 sequences of 1024 tokens, activations in bf16.
//
//   build/bench/bench_cuda_kernels [--benchmark_filter=quantize]
//
// Two ceilings are measured first, on this device: a copy of 1 GiB within its memory, and a bf16 product of
// 8192 x 8192 x 8192. Every kernel then says, from the median of its times, how many bytes it must at least
// move (each input read once, each output written once) and what part of the copy's rate that is, or how many
// operations its product takes and what part of the ceiling. Calls are queued ten at a time, so that the
// host's part is hidden as it is in training. Limits: a quantizer with two bf16 copies moves 6 bytes an
// element, attention's products are counted for the lower triangle only.
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "bench/cuda_work.h"
#include "kernels/calls_rows.h"

namespace mxtape {
namespace {

constexpr std::int64_t B = 64, T = 1024, H = 12, D = 64, C = H * D, V = 50304, rows = B * T;

/// The three products of a linear layer with weight [out, in].
void add_linear(const std::string& name, std::int64_t in, std::int64_t out, bool biased) {
  const double flops = 2 * double(rows) * double(in) * double(out);
  add("gemm/" + name + "/fprop", [=] {
    const Tensor x = random_tensor({rows, in}), w = random_tensor({out, in}), y = empty({rows, out});
    const Tensor bias = biased ? random_tensor({out}, DType::f32) : Tensor{};
    return Work{[=] { backend().run(call::Gemm{y, unrounded(x), unrounded(w), bias}); }, 0, flops};
  });
  add("gemm/" + name + "/dgrad", [=] {
    const Tensor dy = random_tensor({rows, out}), w = random_tensor({out, in}), dx = empty({rows, in});
    return Work{[=] { backend().run(call::Gemm{dx, unrounded(dy), unrounded(w, Axis::column)}); }, 0, flops};
  });
  add("gemm/" + name + "/wgrad", [=] {
    const Tensor dy = random_tensor({rows, out}), x = random_tensor({rows, in}),
                 dw = empty({out, in}, DType::f32);
    return Work{[=] {
                  backend().run(call::Gemm{
                      dw, unrounded(dy, Axis::column), unrounded(x, Axis::column), {}, Write::accumulate});
                },
                0, flops};
  });
}

/// Room for the copies of a tensor for both axes.
std::vector<Rounded> both_copies(const std::string& format, Shape shape) {
  const Quantizer q = parse_quantizer(format);
  std::vector<Rounded> copies;
  for (const Axis axis : {Axis::row, Axis::column})
    copies.push_back(with_room(backend(), wanted(q, axis, shape)));
  return copies;
}

void add_quantize(const std::string& format, std::int64_t width, bool sums) {
  add("quantize/" + format + (sums ? " + column sums" : "") + "/" + std::to_string(width), [=] {
    const Tensor x = random_tensor({rows, width});
    const Tensor column_sums = sums ? empty({width}, DType::f32) : Tensor{};
    std::vector<Rounded> copies = both_copies(format, x.shape());
    const double bytes = double(x.bytes() + copies[0].elements.bytes() + copies[1].elements.bytes());
    return Work{[=]() mutable { backend().run(call::Quantize{copies, x, column_sums}); }, bytes};
  });
}

/// A weight as it is kept, packed and unpacked to what a GEMM takes.
void add_pack(const std::string& format) {
  const auto packed = [=] {
    return with_room(backend(), wanted(parse_quantizer(format), Axis::row, {V, C}, Layout::stored));
  };
  add("pack/" + format, [=] {
    const Tensor x = random_tensor({V, C}, DType::f32);
    const Rounded y = packed();
    return Work{[=] { backend().run(call::Quantize{{&y, 1}, x}); }, double(x.bytes() + bytes_of_parts(y))};
  });
  add("unpack/" + format, [=] {
    const Rounded x = packed();
    Rounded y = unrounded(empty({V, C}, x.by.quantizer.operand_dtype()));
    y.multiplier = x.multiplier;
    backend().run(call::Quantize{{&x, 1}, random_tensor({V, C}, DType::f32)});
    return Work{[=] { backend().run(call::Recode{y, x}); }, double(y.elements.bytes() + bytes_of_parts(x))};
  });
}

void add_rows() {
  constexpr float eps = 1e-5f;
  const auto statistics = [] { return empty({rows}, DType::f32); };
  add("layer_norm", [=] {
    const Tensor x = random_tensor({rows, C}), y = empty({rows, C}), mean = statistics(), rstd = statistics(),
                 gain = random_tensor({C}, DType::f32), bias = random_tensor({C}, DType::f32);
    return Work{[=] {
                  backend().run(call::Norm{y, mean, rstd, x, gain, bias, eps});
                },
                double(x.bytes() + y.bytes())};
  });
  add("layer_norm_backward", [=] {
    const Tensor x = random_tensor({rows, C}), dy = random_tensor({rows, C}), dx = empty({rows, C}),
                 mean = statistics(), rstd = statistics(), gain = random_tensor({C}, DType::f32),
                 dgain = empty({C}, DType::f32), dbias = empty({C}, DType::f32);
    backend().run(call::Norm{dx, mean, rstd, x, gain, dbias, eps});
    return Work{
        [=] {
          backend().run(call::NormBackward{dx, dgain, dbias, dy, x, mean, rstd, gain, Write::overwrite, dx});
        },
        double(4 * x.bytes())};
  });
  add("cross_entropy, gradient in place", [] {
    const Tensor logits = random_tensor({rows, V}), loss = empty({1}, DType::f32),
                 losses = empty({rows}, DType::f32), targets = empty({rows}, DType::i32);
    backend().upload(targets, std::vector<std::int32_t>(std::size_t(rows), 7).data());
    return Work{[=] {
                  backend().run(call::CrossEntropy{loss, losses, logits, logits, targets, 1});
                },
                double(2 * logits.bytes())};
  });
}

void add_pointwise() {
  const Shape wide{rows, 4 * C};
  add("gelu", [=] {
    const Tensor x = random_tensor(wide), y = empty(wide);
    return Work{[=] { backend().run(call::Gelu{y, x, Gelu::tanh}); }, double(2 * x.bytes())};
  });
  add("gelu_backward", [=] {
    const Tensor x = random_tensor(wide), dy = random_tensor(wide), dx = empty(wide);
    return Work{[=] { backend().run(call::GeluBackward{dx, dy, x, Gelu::tanh}); }, double(3 * x.bytes())};
  });
  add("add", [] {
    const Tensor a = random_tensor({rows, C}), b = random_tensor({rows, C}), y = empty({rows, C});
    return Work{[=] { backend().run(call::Add{y, a, b}); }, double(3 * a.bytes())};
  });
}

/// `format`: of both copies of the weight; empty: there are none.
void add_adamw(const std::string& format) {
  add(format.empty() ? "adamw" : "adamw + " + format, [=] {
    const Shape shape{V, C};
    const Tensor p = random_tensor(shape, DType::f32), m = random_tensor(shape, DType::f32),
                 v = empty(shape, DType::f32), g = random_tensor(shape, DType::f32),
                 factor = empty({1}, DType::f32), rates = empty({3}, DType::f32);
    backend().fill(v, 1);
    backend().fill(factor, 1);
    backend().fill(rates, 1e-3f);
    std::vector<Rounded> copies;
    if (!format.empty()) copies = both_copies(format, shape);
    double bytes = double(7 * p.bytes());
    for (const Rounded& copy : copies) bytes += double(copy.elements.bytes());
    const AdamWStep step{0.9f, 0.95f, 1e-8f, 0.1f};
    return Work{[=]() mutable {
                  backend().run(call::AdamW{p, m, v, g, factor, rates, step, copies});
                },
                bytes};
  });
}

void add_attention(const std::string& name, const Quantizer& q) {
  const AttentionQuant quant{q, q, q, q, q, q, q, q, q, q, q, q};
  const AttentionShape shape{B, T, H, D};
  const double product = 2 * double(B * H * D) * double(T) * double(T) / 2;  // the lower triangle
  add("attention/" + name, [=] {
    const Tensor qkv = random_tensor({B, T, 3 * C}), o = empty({B, T, C}), lse = empty({B, H, T}, DType::f32);
    return Work{[=] { backend().run(call::Attention{o, lse, qkv, shape, quant, {}}); }, 0, 2 * product};
  });
  add("attention_backward/" + name, [=] {
    const Tensor qkv = random_tensor({B, T, 3 * C}), o = empty({B, T, C}), lse = empty({B, H, T}, DType::f32),
                 d_o = random_tensor({B, T, C}), dqkv = empty({B, T, 3 * C});
    backend().run(call::Attention{o, lse, qkv, shape, quant, {}});
    return Work{[=] {
                  backend().run(call::AttentionBackward{dqkv, d_o, qkv, o, lse, shape, quant, {}});
                },
                0, 5 * product};
  });
}

void register_all() {
  add_linear("qkv", C, 3 * C, true);
  add_linear("projection", C, C, true);
  add_linear("up", C, 4 * C, true);
  add_linear("down", 4 * C, C, true);
  add_linear("head", C, V, false);
  for (const std::int64_t width : {C, 4 * C})
    for (const char* format : {"mxfp4", "mxfp6_e2m3", "mxfp8_e4m3", "mxint8", "nvfp4"})
      for (const std::string rounding : {"", " round=stochastic"})
        add_quantize(format + rounding, width, false);
  add_quantize("mxfp4", 4 * C, true);
  for (const char* format : {"mxfp4", "mxfp8_e4m3", "nvfp4"}) add_pack(format);
  add_rows();
  add_pointwise();
  for (const char* format : {"", "mxfp4", "mxfp4 round=stochastic", "nvfp4"}) add_adamw(format);
  add_attention("plain", {});
  add_attention("mxfp4", mxfp4);
  add_attention("mxfp4 round=stochastic", parse_quantizer("mxfp4 round=stochastic"));
}

}  // namespace
}  // namespace mxtape

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  try {
    benchmark::AddCustomContext("backend", mxtape::backend().description());
    mxtape::measure_ceilings();
  } catch (const mxtape::Error& e) {
    const char* const required = std::getenv("MXTAPE_REQUIRE_GPU");
    std::printf("bench_cuda_kernels: skipped: %s\n", e.what());
    return required && std::string_view(required) == "1" ? int(e.code()) : 0;
  }
  mxtape::register_all();
  benchmark::RunSpecifiedBenchmarks();
}
