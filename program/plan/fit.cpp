// Whether the machine is enough for a run, and what may surprise.
#include <algorithm>

#include "core/parallel.h"
#include "kernels/choose/make_backend.h"
#include "program/models/trained_model.h"
#include "program/plan/precision_switch.h"
#include "program/plan/run_plan.h"
#include "program/records/room.h"
#include "recipes/telemetry.h"
#include "recipes/text/idle_keys.h"
#include "recipes/text/precision_table.h"
#include "train/high_loss.h"

namespace mxtape {
namespace {

void put_work(RunPlan& plan) {
  const MemoryPlan& memory = *plan.memory;
  const double flops = memory.integer_ops + memory.bf16_flops + memory.f32_flops;
  const bool large = flops >= 1e12;
  const std::string integers = memory.integer_ops > 0 ? fmt::format("{:.0f}% of it in integer GEMMs, ",
                                                                    100 * memory.integer_ops / flops)
                                                      : "";
  plan.fact("work        {:.4g} {} a step in linear layers, {}{:.0f}% of it in bf16 GEMMs",
            flops * (large ? 1e-12 : 1e-9), large ? "TFLOP" : "GFLOP", integers,
            100 * memory.bf16_flops / flops);
  plan.numbers["step_flops"] = flops;
  plan.numbers["step_bf16_flops"] = memory.bf16_flops;
  plan.numbers["step_integer_ops"] = memory.integer_ops;
}

void note_rollbacks(RunPlan& plan) {
  require_switch(plan.recipe);
  const TrainConfig& t = plan.recipe.train;
  if (t.on_divergence != OnDivergence::rollback) return;
  const std::size_t were = t.rollbacks.size();
  plan.fact(
      "rollback    to the last planned checkpoint, at most {} times{}; the first step has one; {}",
      t.rollback_most, were ? fmt::format(", {} of them done", were) : "",
      t.rollback_skip ? "the batches since the checkpoint are passed over" : "the same batches come again");
  if (t.save_every == 0 && t.keep_every == 0)
    plan.notes.push_back(
        "train.on_divergence = rollback: it leads back to the first step; train.save_every bounds what it "
        "loses");
}

/// "every 500 steps, 8 of 8 slots in 17 of 17 layers, in the formats in use and 2 others".
std::string telemetry_text(const Recipe& recipe) {
  const TelemetryPlan plan = telemetry_plan(recipe);
  const std::size_t others = plan.formats.size();
  return fmt::format("every {} steps, {} of {} slots in {} of {} layers, in the formats in use{}",
                     recipe.telemetry.every, plan.slots.size(), measured_slots.size(), plan.layers.size(),
                     linear_layer_names(recipe.model).size(),
                     others == 0 ? "" : " and " + counted(others, "other"));
}

void note_telemetry(RunPlan& plan) {
  const TelemetryConfig& t = plan.recipe.telemetry;
  if (t.every == 0) return;
  plan.fact("telemetry   {}; about {} on the disk", telemetry_text(plan.recipe),
            bytes_text(double(telemetry_bytes(plan.recipe))));
  if (t.every > plan.recipe.train.steps)
    plan.notes.push_back(fmt::format("{}: telemetry.every = {}: none of the {} steps is measured",
                                     plan.recipe.origin("telemetry.every"), t.every,
                                     plan.recipe.train.steps));
}

}  // namespace

void stations::device(RunPlan& plan) {
  const ComputeConfig& compute = plan.recipe.compute;
  if (compute.threads > 0) set_threads(int(compute.threads));
  if (!plan.device) plan.device = make_backend(compute.device, compute.options());
  plan.fact("device      {}", plan.device->description());
  plan.numbers["device"] = plan.device->description();
  static const TokenFile none;
  plan.budget = MemoryBudget::of(plan.recipe, *plan.device, plan.data ? *plan.data : none, plan.sharing);
}

void stations::memory(RunPlan& plan) {
  const Recipe& recipe = plan.recipe;
  if (recipe.model.vocabulary == 0)
    return plan.notes.push_back("model, memory and disk depend on the data's vocabulary: not known");
  plan.fact("model       {}", model_text(recipe.model));
  plan.numbers["parameters"] = parameter_count(recipe.model);
  const MemoryPlan& memory = plan.memory.emplace(memory_plan(recipe));
  if (const std::string saved = saved_text(recipe); !saved.empty()) plan.fact("saved       {}", saved);
  if (plan.budget) {
    plan.fact("memory      {}", memory_text(memory, *plan.budget));
    plan.numbers["memory_needed_bytes"] = plan.budget->needed(memory);
    plan.numbers["memory_capacity_bytes"] = plan.budget->capacity;
  }
  if (recipe.train.strands > 1) {
    plan.numbers["strand_gradient_bytes"] = memory.travelling;
    plan.fact("strands     {}", gradients_text(memory));
  }
  put_work(plan);
  if (plan.budget) plan.look([&] { require_memory(recipe, memory, *plan.budget); });
  if (!plan.rehearses || plan.devices == 0 || recipe.train.strands < plan.devices) return;
  plan.shares = device_plan(recipe, plan.devices);
  for (auto& line : device_facts(*plan.shares)) plan.facts.push_back(std::move(line));
}

void stations::disk(RunPlan& plan) {
  if (!plan.memory || !plan.writes) return;
  const std::int64_t checkpoint = checkpoint_bytes(*plan.memory, plan.recipe);
  const std::int64_t to_start = room_to_start(*plan.memory, plan.recipe);
  double needed = disk_needed(*plan.memory, plan.recipe);
  plan.numbers["checkpoint_bytes"] = checkpoint;
  plan.numbers["disk_to_start_bytes"] = to_start;
  plan.numbers["disk_needed_bytes"] = std::int64_t(std::min(needed, 0x1p62));
  if (plan.folder.empty()) return;
  const std::int64_t free = free_bytes(plan.folder);  // may throw: the rest stays known
  plan.numbers["disk_free_bytes"] = free;
  plan.fact("disk        {} a checkpoint, {} with all that are kept and the records; {} are free",
            bytes_text(double(checkpoint)), bytes_text(needed), bytes_text(double(free)));
  require_room(plan.folder, to_start);
  std::error_code unknown;
  for (const auto& file : list_checkpoints(plan.folder))
    needed -= double(std::filesystem::file_size(file, unknown));
  if (needed > double(free))
    plan.notes.push_back(fmt::format(
        "{}: all checkpoints that are kept, and the records, will need {}; {} are free, so the run may end "
        "before its last step; lower train.keep, raise train.keep_every, or change train.out",
        plan.folder.string(), bytes_text(needed), bytes_text(double(free))));
}

void stations::notes(RunPlan& plan) {
  note_rollbacks(plan);
  note_telemetry(plan);
  const ScheduleConfig& s = plan.recipe.schedule;
  const std::int64_t steps = plan.recipe.train.steps;
  if (s.kind == ScheduleKind::wsd && s.final_fraction < 1 &&
      (s.start + s.warmup_steps >= steps || learning_rate_factor(s, steps - 1, steps) == 1))
    plan.notes.push_back(fmt::format(
        "{}: schedule.decay_fraction = {}, after schedule.warmup_steps = {}: none of the {} steps decays",
        plan.recipe.origin("schedule.decay_fraction"), s.decay_fraction, s.warmup_steps, steps));
  if (!plan.rehearses) return;
  // Keys that somebody set and nothing reads, with the others as they are. A resolved file sets all.
  for (const auto& [key, reason] : idle_keys(plan.recipe))
    if (const auto origin = plan.recipe.origins.find(std::string(key)); origin != plan.recipe.origins.end())
      plan.notes.push_back(fmt::format("{}: {} has no effect: {}", origin->second, key, reason));
  if (plan.recipe.model.vocabulary == 0) return;
  // A run says it in its first step, beside the loss.
  if (auto remark = remark_on_start(plan.recipe); !remark.empty()) plan.notes.push_back(std::move(remark));
}

}  // namespace mxtape
