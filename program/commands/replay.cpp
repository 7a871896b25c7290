#include "program/run/replay.h"

#include <cstdio>

#include "program/run/run_progress.h"
#include "program/show/command.h"

namespace mxtape {
namespace {

struct Arguments {
  std::string run;
  ReplayOptions options;
};

constexpr const char* every_finite = "every number is finite";

using Seen = Watch::Found;

std::string pass_of(const Seen& seen, std::int64_t micro_batches) {
  if (seen.layer == "sum of strands") return "sum";
  return seen.micro >= micro_batches ? "update" : seen.backward ? "backward" : "forward";
}

/// "blocks.0.attn.qkv, backward: gemm: dgrad.dx [64, 96], element 7".
std::string place_of(const Seen& seen, std::int64_t micro_batches) {
  return fmt::format(
      "{}{}{}: {}: {} {}, element {}",
      seen.micro < micro_batches && micro_batches > 1 ? fmt::format("micro-batch {}, ", seen.micro + 1) : "",
      seen.layer.empty() ? "" : seen.layer + ", ", pass_of(seen, micro_batches), seen.kernel, seen.name,
      seen.shape.text(), seen.numbers.first_nonfinite);
}

std::string loss_text(const Replay& r) {
  if (!r.loss) return "not finite: the step diverges";
  const std::string loss = fmt::format("{}", *r.loss);
  if (!r.recorded) return loss + ", not on record";
  if (r.same_bits()) return loss + ", bit for bit as on record";
  return fmt::format(
      "{}; on record {}: not the same bits; another device or instruction set may have another order of "
      "additions",
      loss, *r.recorded);
}

/// Headings once more where a pass begins.
void fill(Table& table, const Replay& r) {
  const std::int64_t micro_batches = r.recipe.train.passes();
  std::int64_t micro = -1;
  std::string pass;
  for (const Seen& seen : r.tensors) {
    std::string above;
    if (const std::string here = pass_of(seen, micro_batches); here != pass || seen.micro != micro) {
      pass = here, micro = seen.micro;
      const bool counted = micro_batches > 1 && micro < micro_batches;
      above = fmt::format("\n{}{}\n", pass,
                          counted ? fmt::format(", micro-batch {} of {}", micro + 1, micro_batches) : "");
    }
    const NumbersSeen& n = seen.numbers;
    const auto known = [&](double value) {
      const bool any = n.nans + n.infinities < seen.shape.count();
      return Value(any ? std::optional(value) : std::nullopt, "no number is finite");
    };
    const auto first = n.first_nonfinite >= 0 ? std::optional(n.first_nonfinite) : std::nullopt;
    const std::vector<std::int64_t> dims(seen.shape.dims.begin(), seen.shape.dims.begin() + seen.shape.rank);
    table
        .row(pass, seen.layer, seen.kernel + " " + seen.name, seen.kernel,
             std::min(seen.micro + 1, micro_batches), seen.name, Value(dims, "", seen.shape.text()),
             name_of(seen.dtype), known(n.min), known(n.max), known(n.rms),
             Value(n.zeros, "", fmt::format("{:.2f}", 100 * n.zeros)), n.nans, n.infinities,
             Value(first, every_finite))
        .above = above;
  }
}

Report report_of(const Arguments& a, const Replay& r) {
  Report out;
  const std::string checkpoint = r.checkpoint ? r.checkpoint->string() : "";
  out.line("run         {}, step {} of {}", a.run, a.options.step, r.recipe.train.steps);
  out.line("from        {}; {} steps trained again before it",
           checkpoint.empty() ? "the first step" : checkpoint, a.options.step - 1 - r.begin);
  out.line("loss        {}", loss_text(r));
  const Seen* bad = r.first_nonfinite();
  out.line("not finite  {}", bad ? "first in " + place_of(*bad, r.recipe.train.passes())
                                 : fmt::format("no number in {} tensors", r.tensors.size()));
  if (!r.divergence.empty()) out.line("diverged    {}", r.divergence);
  out.put("run", a.run, "step", a.options.step, "checkpoint",
          Value(checkpoint, "none before the step: from the first"), "trained_again",
          a.options.step - 1 - r.begin, "loss", Value(r.loss, "the step diverges"), "recorded_loss",
          Value(r.recorded, "the step is not on record"), "same_bits", r.same_bits(), "diverged",
          r.divergence, "first_not_finite", Value(nullptr, bad ? "" : every_finite));
  Table& tensors = out.table("tensors",
                             "pass; layer|layer; |call and tensor; kernel; micro_batch; tensor; shape|shape; "
                             "dtype|type; min|min|>10.4g; max|max|>10.4g; rms|rms|>10.4g; zeros|zeros %|>; "
                             "nans|nan|>7; infinities|inf|>7; first_not_finite");
  fill(tensors, r);
  if (bad) out.put("first_not_finite", tensors.object(std::size_t(bad - r.tensors.data())));
  return out;
}

Report run(Arguments& a) {
  // On standard error: what is printed on the other one can be read by programs.
  std::optional<Progress> progress;
  a.options.on_start = [&](std::int64_t first, std::int64_t last) {
    fmt::print(stderr, "training steps {} to {} again\n", first, last);
    if (is_screen(stderr)) progress.emplace(stderr, last, first - 1);
  };
  a.options.on_step = [&](const StepRecord& step) {
    if (progress) progress->step(step);
  };
  const Replay result = replay(a.run, a.options);
  if (progress) fmt::print(stderr, "\n");
  return report_of(a, result);
}

Options options(Arguments& a) {
  return {{"RUN", &a.run, "a run's folder"},
          {"--step", &a.options.step, "which; the one after the last on record is the one that diverged",
           from(1).must_be_given()},
          {"--rollback", &a.options.rollback,
           "the step as it was before the run's n-th rollback, which took it back", from(1)},
          {"--device", &a.options.device, "cpu or cuda; default: the device of the run's recipe"},
          {"--data", &a.options.data, "token file; default: the one of the run's recipe"}};
}

}  // namespace

Command commands::replay() {
  return {"replay", "Compute a step of a run again, and list every tensor of it; nothing is written",
          with(options, run)};
}

}  // namespace mxtape
