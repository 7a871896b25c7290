#include "train/memory/memory_budget.h"

#include <vector>

namespace mxtape {
namespace {

/// The largest micro-batch that fits, with as many more of them that a step stays what it is.
std::string smaller_batches(Recipe recipe, const MemoryBudget& budget) {
  const std::int64_t sequences = recipe.train.batch_size * recipe.train.accumulation;
  std::vector<std::int64_t> batches;  // ascending: more sequences at a time never take less
  for (std::int64_t batch = 1; batch < recipe.train.batch_size; ++batch)
    if (sequences % batch == 0) batches.push_back(batch);
  const auto plan = [&](std::int64_t batch) {
    recipe.train.batch_size = batch;
    recipe.train.accumulation = sequences / batch;
    return memory_plan(recipe);
  };
  const auto too_large = std::partition_point(batches.begin(), batches.end(),
                                              [&](std::int64_t batch) { return budget.holds(plan(batch)); });
  if (too_large == batches.begin()) return "";
  const std::int64_t largest = *std::prev(too_large);
  return fmt::format("\n  {} with --train.batch_size={} --train.accumulation={}, the same step",
                     bytes_text(double(budget.needed(plan(largest)))), largest, sequences / largest);
}

/// One line if the changed recipe fits.
std::string if_it_fits(const Recipe& changed, const MemoryBudget& budget, std::string_view how) {
  const MemoryPlan plan = memory_plan(changed);
  if (!budget.holds(plan)) return "";
  return fmt::format("\n  {} with {}", bytes_text(double(budget.needed(plan))), how);
}

std::string other_computations(const Recipe& recipe, const MemoryBudget& budget) {
  std::string lines;
  const auto look_at = [&](auto ComputeConfig::*field, auto value, std::string_view how) {
    if (recipe.compute.*field == value) return;
    Recipe changed = recipe;
    changed.compute.*field = value;
    lines += if_it_fits(changed, budget, how);
  };
  look_at(&ComputeConfig::saved, Saved::packed, "--compute.saved=packed, some time and the same bits");
  look_at(&ComputeConfig::recompute, Recompute::norm_and_gelu,
          "--compute.recompute=norm+gelu, some time and the same bits");
  look_at(&ComputeConfig::attention, AttentionKernels::own,
          "--compute.attention=own, whose backward pass keeps no scores");
  return lines;
}

std::string shorter_context(Recipe recipe, const MemoryBudget& budget) {
  while (recipe.model.context > 1) {
    recipe.model.context /= 2;
    const std::string how = fmt::format("--model.context={}", recipe.model.context);
    if (std::string line = if_it_fits(recipe, budget, how); !line.empty()) return line;
  }
  return "";
}

}  // namespace

MemoryBudget MemoryBudget::of(const Recipe& recipe, const Backend& fresh, const TokenFile& data,
                              int sharing) {
  const bool same_memory = recipe.compute.device == "cpu";
  return {.capacity = fresh.capacity_bytes(sharing),
          .workspace = fresh.used_bytes(),
          .tokens = same_memory ? data.train.bytes_in_memory() + data.validation.bytes_in_memory() : 0,
          .host = same_memory};
}

std::string memory_text(const MemoryPlan& plan, const MemoryBudget& budget) {
  std::string text = fmt::format(
      "about {} of the device's {}:\n            weights {}, gradients {}, moments {}, quantized weights "
      "{},\n            activations {}",
      bytes_text(double(budget.needed(plan))), bytes_text(double(budget.capacity)),
      bytes_text(double(plan.weights)), bytes_text(double(plan.gradients)), bytes_text(double(plan.moments)),
      bytes_text(double(plan.weight_copies)), bytes_text(double(plan.step_peak - plan.state())));
  if (plan.peak > plan.step_peak)
    text += fmt::format(", validation {}", bytes_text(double(plan.peak - plan.step_peak)));
  if (const auto saving = budget.saving(plan)) text += fmt::format(", saving {}", bytes_text(double(saving)));
  if (const auto bytes = budget.telemetry(plan))
    text += fmt::format(", telemetry {}", bytes_text(double(bytes)));
  if (budget.workspace) text += fmt::format(", workspace {}", bytes_text(double(budget.workspace)));
  if (budget.tokens) text += fmt::format(", tokens {}", bytes_text(double(budget.tokens)));
  return text;
}

void require_memory(const Recipe& recipe, const MemoryPlan& plan, const MemoryBudget& budget) {
  if (budget.holds(plan)) return;
  const std::string remedies =
      smaller_batches(recipe, budget) + other_computations(recipe, budget) + shorter_context(recipe, budget);
  fail(ExitCode::resource, "memory: the run needs about {}, the device has {}; {}",
       bytes_text(double(budget.needed(plan))), bytes_text(double(budget.capacity)),
       remedies.empty() ? "lower model.layers or model.width: even one short sequence at a time does not fit"
                        : "it would need" + remedies);
}

}  // namespace mxtape
