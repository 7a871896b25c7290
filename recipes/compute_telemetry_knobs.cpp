#include <array>

#include "recipes/rows.h"

namespace mxtape {
namespace {

constexpr std::array<std::string_view, 2> activation_names{"f32", "bf16"};
constexpr std::array<std::string_view, 2> attention_names{"own", "cudnn"};
constexpr std::array<std::string_view, 3> gemm_names{"auto", "library", "integer"};
constexpr std::array<std::string_view, 4> recompute_names{"none", "norm", "gelu", "norm+gelu"};
constexpr std::array<std::string_view, 2> saved_names{"ready", "packed"};

}  // namespace

std::vector<Knob> compute_knobs(ComputeConfig& c) {
  return {
      {"compute.device", &c.device,
       "cpu; or cuda, in a program that was built with nvcc, on a machine with an NVIDIA GPU",
       TextCheck{"a device", check_not_empty}},
      {"compute.activations", choice(c.activations, activation_names),
       "what passes between layers, and its gradients; bf16 is what GPUs are fast with, and slower on a CPU"},
      {"compute.attention", choice(c.attention, attention_names),
       "whose kernels; cudnn: NVIDIA's, on cuda, for bf16 activations and attention that is not quantized"},
      {"compute.gemm", choice(c.gemm, gemm_names),
       "on a CPU, how operands that have integer codes (mxfp4's, say) are multiplied. library: as bf16 "
       "values, by oneDNN; integer: as codes, with exact sums in blocks and the same bits on every machine; "
       "auto: integer where the CPU has byte dot products and no AMX, and the run records which it was"},
      untraced({"compute.recompute", choice(c.recompute, recompute_names),
                "results that backward computes again instead of keeping the operand made from them, SwiGLU "
                "as GELU: less memory, more time, the same bits"}),
      untraced({"compute.saved", choice(c.saved, saved_names),
                "the form of what is rounded and kept for backward. ready: as GEMMs and attention read it; "
                "packed: as wide as its format, and q, k and v in bf16 where attention rounds them so; "
                "less memory, the same bits, 1 to 3 % more time on a CPU"}),
      untraced(
          {"compute.graph", &c.graph,
           "cuda: record the third step and launch it as one from then on. Results do not depend on it"}),
      untraced({"compute.threads", &c.threads, "CPU threads; 0: all. Results do not depend on it",
                between(0, 4096)}),
      untraced({"compute.overlap", &c.overlap,
                "several devices: exchange gradients while backward goes on, for memory of what comes. "
                "Results do not depend on it"}),
      untraced({"compute.bucket_kib", &c.bucket_kib,
                "KiB of f32 gradients that devices exchange together. Results do not depend on it",
                between(1, 1 << 21)}),
  };
}

std::vector<Knob> telemetry_knobs(TelemetryConfig& t) {
  return {
      untraced(
          {"telemetry.every", &t.every,
           "steps between measurements of what rounding does in each layer, kept in telemetry.jsonl; 0: none",
           between(0, 0x1p31)}),
      untraced({"telemetry.formats", &t.formats,
                "formats that are tried on the same numbers besides those in use"}),
      untraced({"telemetry.layers", &t.layers, "pattern of the layers' names, as in precision.rules",
                TextCheck{"a pattern of layer names", check_not_empty}}),
      untraced(
          {"telemetry.slots", &t.slots,
           "globs over slots: \"fprop.*\", \"*.w\", \"wgrad.dw\"; none: all operands and both gradients"}),
      untraced({"telemetry.sample", &t.sample, "numbers of an operand that are measured, about",
                between(1024, 1 << 28)}),
      untraced({"telemetry.window", &t.window,
                "steps up to a measurement over which weights are followed: oscillation",
                between(1, 0x1p31)}),
  };
}

}  // namespace mxtape
