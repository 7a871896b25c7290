#include "program/run/profile.h"
#include "core/files/atomic_file.h"
#include "program/show/command.h"
#include "recipes/text/precision_notes.h"

namespace mxtape {
namespace {

struct Arguments {
  std::string recipe, by = "kernel", flame, device;
  std::int64_t steps = 10;
  bool force = false;
};

Report run(const Arguments& arguments, const Given& given) {
  RunPlan plan({.recipe = arguments.recipe, .overrides = overrides_of(given, arguments.device)});
  plan.writes = false;
  plan_through(plan, Station::recipe);
  std::vector<std::string> inputs{plan.recipe.data.file, arguments.recipe};
  for (const auto& [key, origin] : plan.recipe.origins) inputs.push_back(file_of(origin));
  for (const auto& rule : all_rules(plan.recipe)) inputs.push_back(file_of(rule.where));
  if (!arguments.flame.empty()) require_output(arguments.flame, inputs, arguments.force);
  const Profile p = profile(std::move(plan), arguments.steps);
  if (!arguments.flame.empty()) write_atomically(arguments.flame, folded_stacks(p));
  const DevicePeaks& peaks = p.peaks;
  Report out;
  out.line("recipe    {}, batch {} x accumulation {} x context {}\ndevice    {}\ndata      {}", p.recipe.name,
           p.recipe.train.batch_size, p.recipe.train.accumulation, p.recipe.model.context, p.device, p.data);
  out.line("peaks     {}bf16 {:.0f} GFLOP/s, f32 {:.0f} GFLOP/s, {:.1f} GB/s, as measured now",
           peaks.integer_ops > 0 ? fmt::format("integer {:.0f} GOP/s, ", 1e-9 * peaks.integer_ops) : "",
           1e-9 * peaks.bf16_flops, 1e-9 * peaks.f32_flops, 1e-9 * peaks.bytes);
  out.line("step      {:.2f} ms, median of {}; {:.2f} ms with every call timed, of which the table is\n",
           1e3 * p.step_seconds, p.steps, 1e3 * p.watched_seconds);
  out.put("recipe", p.recipe.name, "device", p.device, "data", p.data, "steps", p.steps, "step_ms",
          1e3 * p.step_seconds, "watched_step_ms", 1e3 * p.watched_seconds, "peaks",
          object("bf16_flops", peaks.bf16_flops, "f32_flops", peaks.f32_flops, "integer_ops",
                 peaks.integer_ops, "bytes", peaks.bytes));
  const std::string& by = arguments.by;
  put_rows(out, p, by == "layer" ? ProfileBy::layer : by == "call" ? ProfileBy::call : ProfileBy::kernel);
  out.line("\n% limit: the part of its time that a row would take at these peaks");
  if (!arguments.flame.empty()) out.line("wrote {}", arguments.flame);
  return out;
}

Options options(Arguments& a) {
  return {{"recipe", &a.recipe, "a .toml file, or the name of a shipped recipe (mxtape recipes)"},
          {"--steps", &a.steps, "steps that are measured", from(1)},
          {"--by", &a.by, "rows: kernel (and slot), layer, or call (both)", one_of("kernel layer call")},
          {"--flame", &a.flame, "file for a flame graph: folded stacks, microseconds a step"},
          {"--force", &a.force, "write over a file that is there", needs("--flame")},
          device_option(a.device)};
}

}  // namespace

Command commands::profile() {
  return {"profile", "Time the calls of a recipe's step, by kernel, slot and layer", with(options, run),
          "Every key of a recipe is an option too: --section.key=value (mxtape recipes --reference).", true};
}

}  // namespace mxtape
