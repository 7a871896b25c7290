#include <array>

#include "recipes/rows.h"

namespace mxtape {
namespace {

constexpr std::array<std::string_view, 2> activation_names{"f32", "bf16"};
constexpr std::array<std::string_view, 2> attention_names{"own", "cudnn"};
constexpr std::array<std::string_view, 3> gemm_names{"auto", "library", "integer"};
constexpr std::array<std::string_view, 5> recompute_names{"none", "norm", "gelu", "norm+gelu", "auto"};
constexpr std::array<std::string_view, 3> saved_names{"ready", "packed", "auto"};

}  // namespace

std::vector<Knob> compute_knobs(ComputeConfig& c) {
  return {
      {"compute.device", &c.device, "cpu, or cuda in a build with CUDA",
       TextCheck{"a device", check_not_empty}},
      {"compute.activations", choice(c.activations, activation_names),
       "type of activations and their gradients; bf16 is slower on a CPU"},
      {"compute.attention", choice(c.attention, attention_names),
       "attention's kernels; cudnn: NVIDIA's, for unquantized attention in bf16 on cuda"},
      {"compute.gemm", choice(c.gemm, gemm_names),
       "on a CPU, GEMMs of formats with integer codes. library: bf16 values; integer: codes, the same bits "
       "on every machine; auto: integer on CPUs with AVX2 or SDOT and no AMX"},
      untraced({"compute.recompute", choice(c.recompute, recompute_names),
                "what backward computes again, in all blocks but the last (gelu: SwiGLU too): less memory, more time, "
                "the same bits; auto: norm+gelu where compute.saved = \"auto\" packs"}),
      untraced({"compute.saved", choice(c.saved, saved_names),
                "what is kept for backward, the same bits. packed: at its format's width, unpacked when it is "
                "used; auto: packed in large models where layers keep codes of integer GEMMs, else ready"}),
      untraced({"compute.graph", &c.graph, "cuda: launch steps as a CUDA graph; the same bits"}),
      untraced({"compute.threads", &c.threads, "CPU threads, 0: all; the same bits", between(0, 1024)}),
      untraced({"compute.overlap", &c.overlap,
                "devices exchange gradients during backward: more memory, the same bits"}),
      untraced({"compute.bucket_kib", &c.bucket_kib,
                "KiB of f32 gradients that devices exchange at once; the same bits", between(1, 1 << 21)}),
  };
}

std::vector<Knob> telemetry_knobs(TelemetryConfig& t, bool switches) {
  const auto measured = switches ? +[](Knob knob) { return knob; } : untraced;
  return {
      measured({"telemetry.every", &t.every,
                "steps between measurements of rounding, written to telemetry.jsonl; 0: none",
                between(0, 0x1p31)}),
      untraced({"telemetry.formats", &t.formats, "formats tried on the same numbers"}),
      measured({"telemetry.layers", &t.layers, "layers by pattern, as in precision.rules",
                TextCheck{"a pattern of layer names", check_not_empty}}),
      measured({"telemetry.slots", &t.slots,
                "slots by pattern, as \"fprop.*\" or \"wgrad.dw\"; none: all operands and both gradients"}),
      untraced(
          {"telemetry.sample", &t.sample, "numbers measured of an operand, about", between(1024, 1 << 28)}),
      untraced({"telemetry.window", &t.window,
                "oscillation is measured over so many steps, at most `every`", between(1, 0x1p31)}),
  };
}

}  // namespace mxtape
