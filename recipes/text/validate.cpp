#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "autograd/slots.h"
#include "core/error.h"
#include "data/tokenizers/text/utf8.h"
#include "kernels/mx_transfer.h"
#include "recipes/knobs.h"
#include "recipes/rollbacks.h"
#include "recipes/telemetry.h"
#include "recipes/weight_average.h"

namespace mxtape {
namespace {

/// cuDNN's attention is for unquantized operands in bf16 on CUDA.
void validate_cudnn_attention(const Recipe& r) {
  const auto want = [&]<class... Args>(bool holds, fmt::format_string<Args...> text, Args&&... args) {
    require(holds, ExitCode::usage, "recipe {}: compute.attention = cudnn, {}, or --compute.attention=own",
            r.name, fmt::format(text, std::forward<Args>(args)...));
  };
  want(r.compute.device == "cuda", "which needs CUDA; found compute.device = {}; want cuda",
       r.compute.device);
  want(r.compute.activations == ActivationType::bf16,
       "which is for bf16; found compute.activations = f32; want bf16");
  const std::int64_t width = r.model.head_channels();
  want(cudnn_takes_width(width),
       "which has kernels for heads whose width is a multiple of 8 up to 128; found model.width / "
       "model.heads = {} / {} = {}; want other extents",
       r.model.width, r.model.heads, width);
  want(r.model.attention_dropout == 0,
       "which does not draw mxtape's numbers; found model.attention_dropout = {}; want 0",
       r.model.attention_dropout);
  want(r.model.context >= 2, "which has no gradient for sequences of one token; want model.context >= 2");
  const auto look_at = [&](const PrecisionPlan& plan, const std::string& when) {
    for (const auto& [layer, quant] : plan.attention) {
      if (quant == AttentionQuant{}) continue;  // all f32
      want(quant.qk_s.is_identity(),
           "which does not round scores; found scores = {} in {} from {}; want f32 there",
           to_text(quant.qk_s), layer, when);
      for (const auto& slot : attention_slots)
        want(quant.*slot.field == bf16_cast,
             "which does not quantize; found {} = {} in {} from {}; want precision.attention = bf16 there",
             slot.name, to_text(quant.*slot.field), layer, when);
    }
  };
  for (const auto& [course, step, n] : possible_phases(r))
    look_at(precision_plan(course, step), n ? fmt::format("rollback {}", n) : fmt::format("step {}", step));
}

/// Integer GEMMs read codes along the axis that they sum over: a copy of codes serves one axis. With auto
/// such a recipe has the library's (settle_and_validate()).
void validate_sources(const Recipe& r, const PrecisionPlan& plan) {
  if (r.compute.gemm != GemmChoice::integer) return;
  for (const auto& [layer, quant] : plan.linear)
    for (const auto& [slot, source] :
         {std::pair("dgrad.source", quant.dgrad_source), std::pair("wgrad.source", quant.wgrad_source)})
      require(source != OperandSource::shared, ExitCode::usage,
              "recipe {}: {} of {} takes the forward's values as they are, and compute.gemm = integer keeps "
              "codes, which serve one axis; want source=master or --compute.gemm=library",
              r.name, slot, layer);
}

/// True if a gradient that is infinite or NaN is not finite either when it comes out of its codes.
bool keeps_what_is_not_finite(const Quantizer& q) {
  for (const float bad : {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
    std::array<float, 2> x{1, bad};
    std::int64_t first_uncoded = -1;
    const MxTensor t = pack(x.data(), 1, std::ssize(x), Axis::row, q, {}, first_uncoded);
    unpack(x.data(), t);
    if (std::isfinite(x[0] * t.multiplier) && std::isfinite(x[1] * t.multiplier)) return false;
  }
  return true;
}

/// Strands' gradients travel in strips of rows, and tell by not being finite that a step diverges.
void validate_sums(const Recipe& r, const PrecisionPlan& plan) {
  for (const auto& [layer, q] : plan.sums) {
    if (q.is_identity()) continue;
    const std::string where =
        fmt::format("recipe {}: {} of {} is '{}'", r.name, name_of(Slot::sum_dw), layer, to_text(q));
    require(r.train.strands > 1, ExitCode::usage,
            "{}, and train.strands = 1: no strands are added, so nothing would be rounded; want "
            "--train.strands=2 or more, or no such rule",
            where);
    require(!q.has_group_scale(), ExitCode::usage, "{}, which has no codes; want outer=tensor or none",
            where);
    require(q.scale == ScaleKind::none || (q.block.across > 0 && strip_rows % q.block.across == 0),
            ExitCode::usage,
            "{}: devices share matrices in strips of {} rows; want blocks of 1, 2, 4, ... {} rows", where,
            strip_rows, strip_rows);
    require(
        keeps_what_is_not_finite(q), ExitCode::usage,
        "{}, in which a gradient that is infinite or NaN becomes a finite one, so that nobody would see a "
        "step diverge; want bf16, or blocks whose scales have a NaN, as mxfp8",
        where);
  }
}

}  // namespace

void validate(const Recipe& r) {
  Recipe copy = r;
  for (const Knob& knob : knobs(copy))
    if (const auto* text = std::get_if<std::string*>(&knob.field))
      require(first_bad_byte(**text) == (*text)->size(), ExitCode::usage,
              "recipe: {} ({}) is not UTF-8; want a name that TOML can hold", knob.name, r.origin(knob.name));
  ModelConfig model = r.model;
  if (model.vocabulary == 0) model.vocabulary = 1;  // the data will say; whether it fits is seen there
  validate(model);
  require(
      r.schedule.start < r.train.steps && r.optim.start < r.train.steps, ExitCode::usage,
      "recipe {}: schedule.start = {}, optim.start = {}; want less than train.steps = {}; a branch of a run "
      "whose steps are all done needs more: --train.steps={}",
      r.name, r.schedule.start, r.optim.start, r.train.steps, 2 * std::max(r.schedule.start, r.optim.start));
  const std::int64_t scheduled = r.train.steps - r.schedule.start;
  require(r.schedule.warmup_steps <= scheduled, ExitCode::usage,
          "recipe {}: schedule.warmup_steps = {} ({}); want at most {} = {} ({}); for a short trial add "
          "--schedule.warmup_steps={}",
          r.name, r.schedule.warmup_steps, r.origin("schedule.warmup_steps"),
          r.schedule.start ? "train.steps - schedule.start" : "train.steps", scheduled,
          r.origin("train.steps"), scheduled / 10);
  // Random draws are keyed by the number of the forward pass, 32 bits (core/random.h).
  require(
      double(r.train.steps) * double(r.train.passes()) <= double(std::numeric_limits<std::uint32_t>::max()),
      ExitCode::usage,
      "recipe {}: train.steps x train.strands x train.accumulation = {} x {} x {}; want less than 2^32",
      r.name, r.train.steps, r.train.strands, r.train.accumulation);
  for (const auto& phase : r.precision.phases)
    if (const std::int64_t start = phase_start(r, phase);
        start >= r.train.steps && start != never && phase.start_rollback == 0)  // old builds switched there
      fail(ExitCode::usage,
           "{}: its precision phase starts at step {}; want less than train.steps = {}, or it never starts",
           phase.rules.empty() ? "recipe " + r.name : phase.rules.front().where, start, r.train.steps);
  validate_rollbacks(r);
  bool averages = false;
  for (const PossiblePhase& phase : possible_phases(r)) {
    const PrecisionPlan plan = precision_plan(phase.course, phase.step);
    validate_sources(r, plan);
    validate_sums(r, plan);
    averages |= validate_averages(r, plan);
  }
  // A rollback may have led to before the phase that asked them.
  require_use_of_averages(r, averages || !r.train.rollbacks.empty());
  if (r.compute.attention == AttentionKernels::cudnn) validate_cudnn_attention(r);
  (void)telemetry_plan(r);
}

}  // namespace mxtape
