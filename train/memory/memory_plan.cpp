#include "train/memory/memory_plan.h"

#include <algorithm>
#include <set>

#include "autograd/linear_operands.h"
#include "kernels/observers/bf16_activations.h"
#include "kernels/observers/dry_backend.h"
#include "kernels/observers/observer.h"
#include "recipes/rollbacks.h"
#include "recipes/telemetry.h"
#include "train/devices/packed_gradients.h"
#include "train/devices/strand_sum.h"
#include "train/trainer.h"

namespace mxtape {
namespace {

/// What Measure would take on the host in a step, about, told by a dry run, in which nothing can be
/// downloaded: the most that it downloads at a time, in f32, and the corners of operands that it keeps.
class MeasureMemory final : public Observer {
 public:
  explicit MeasureMemory(const TelemetryPlan& plan) : plan_(plan) {}
  void start() { on_ = true; }
  std::int64_t bytes() const { return kept_ + largest_; }

  bool wants_every_call() const override { return on_; }
  void after(const Seen& seen) override {
    if (!on_ || seen.layer.empty() || !plan_.wants_layer(seen.layer)) return;
    constexpr std::int64_t f32 = 4;
    const std::string layer(seen.layer);
    if (const auto* const call = seen.call.as<call::Quantize>(); call && !call->to.empty()) {
      rounded_.insert(layer);
      const Tensor& x = call->x;
      // Of each copy at most 32 columns of X, or 16 columns and 16 rows of dY.
      constexpr std::int64_t columns = 32;
      kept_ += std::int64_t(call->to.size()) * columns * (x.rows() + x.cols()) * f32;
      largest_ = std::max(largest_, x.count() * (f32 + (x.dtype() == DType::bf16 ? 2 : 0)));
    }
    const bool measured = !plan_.formats.empty() || rounded_.contains(layer);  // formats are tried on all
    if (const auto* const call = seen.call.as<call::Gemm>(); call && measured)
      largest_ = std::max(largest_, (call->a.elements.count() + call->b.elements.count()) * f32);
  }

 private:
  const TelemetryPlan& plan_;
  bool on_ = false;
  std::set<std::string> rounded_;
  std::int64_t kept_ = 0, largest_ = 0;
};

/// Two splits long enough for a batch and for the largest validation pass on each device. No token of them is
/// there: a batch of a million sequences would take gigabytes, and no one reads it.
TokenFile blank_tokens(const Recipe& recipe, std::int64_t devices) {
  TokenFile data;
  data.tokenizer = Tokenizer::from_text(Tokenizer::Kind::characters, "a");
  data.train.unread = recipe.model.context + 1;
  const auto windows = devices * validation_windows_at_a_time(recipe.model, recipe.train.batch_size);
  data.validation.unread = windows * recipe.model.context + 1;
  return data;
}

/// The recipe as it is from step `start` on.
Recipe from_phase(Recipe recipe, std::int64_t start) {
  recipe.precision.rules = rules_at(recipe, start);
  recipe.precision.phases.clear();
  recipe.train.rollbacks.clear();
  recipe.schedule.start = recipe.optim.start = 0;  // the plan's steps are counted from 0
  return recipe;
}

/// What a step that is measured takes, and what follows weights in a window of steps: of each its value, its
/// rounded value and how far both went (program/records/oscillation.h).
void add_telemetry(MemoryPlan& plan, MeasureMemory& measured, Trainer& trainer) {
  const TelemetryConfig& config = trainer.recipe().telemetry;
  if (config.every == 0) return;
  measured.start();
  trainer.step();  // and on a device that plans, beside its plan
  plan.telemetry = measured.bytes();
  for (const LinearWeight& weight : trainer.model().linear_weights()) {
    const Tensor& w = weight.parameter.value;
    constexpr std::int64_t numbers = 4, f32 = 4, rows = 16;
    plan.telemetry += numbers * f32 * std::min(std::max(config.sample / 4, rows * w.cols()), w.count());
  }
}

MemoryPlan plan_of_phase(Recipe recipe, const TokenFile& data, Devices* devices) {
  const int size = devices ? devices->size() : 1;
  // One pass of validation: later ones are like it.
  recipe.train.eval_windows = validation_windows(
      recipe.train, size * validation_windows_at_a_time(recipe.model, recipe.train.batch_size));
  // Later micro-batches are like the second one.
  const std::int64_t seen = std::min<std::int64_t>(recipe.train.accumulation, 2);
  double repeats = double(recipe.train.accumulation) / double(seen);
  recipe.train.accumulation = seen;
  // Strands are all alike. From the second group on there is one sum more, and a device with two of them has
  // seen what it will.
  const std::int64_t strands =
      std::min(recipe.train.strands, std::max<std::int64_t>(strands_of_a_group + 1, 2 * size));
  repeats *= double(recipe.train.strands) / double(strands);
  recipe.train.strands = strands;
  const ComputeConfig& compute = recipe.compute;
  const bool cpu = compute.device == "cpu";
  // The CPU's attention takes no more than a head's matrices for each thread.
  const auto attention = cpu ? std::nullopt : std::optional(compute.attention);
  const auto memory = cpu             ? DryBackend::Memory::pool
                      : compute.graph ? DryBackend::Memory::recorded
                                      : DryBackend::Memory::planned;
  auto dry = std::make_unique<DryBackend>(memory, attention, compute.gemm_kernels());
  const DryBackend& counted = *dry;
  std::unique_ptr<Backend> device = std::move(dry);
  if (cpu) device = std::make_unique<Bf16Activations>(std::move(device));
  const TelemetryPlan telemetry = telemetry_plan(recipe);
  MeasureMemory measured(telemetry);
  ObservingBackend observed(*device, {&measured});
  Trainer trainer(recipe.telemetry.every > 0 ? observed : *device, recipe, data, devices);
  trainer.step();
  trainer.step();  // the first to follow a plan, on devices that plan

  MemoryPlan plan;
  constexpr double steps = 2;
  plan.integer_ops = counted.integer_gemms().flops * repeats / steps;
  plan.bf16_flops = counted.bf16_gemms().flops * repeats / steps;
  plan.f32_flops = counted.f32_gemms().flops * repeats / steps;
  const std::vector<Parameter*> parameters = trainer.model().parameters();
  const std::vector<Quantizer> formats = sum_formats(parameters, precision_plan(recipe, 0));
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const Parameter* const p = parameters[i];
    plan.travelling += bytes_of_gradient(p->value.shape(), formats[i]);
    plan.weights += p->value.bytes() + p->average.bytes();
    plan.gradients += p->value.bytes();
    plan.moments += 2 * p->value.bytes();
    plan.tensors += p->average ? 4 : 3;
    for (const Rounded& copy : own_copies(*p)) plan.weight_copies += copy.bytes();
  }
  add_telemetry(plan, measured, trainer);
  plan.step_peak = counted.peak_bytes();
  trainer.validate();
  plan.peak = counted.peak_bytes();
  return plan;
}

}  // namespace

MemoryPlan memory_plan(const Recipe& recipe, Devices* devices) {
  const TokenFile data = blank_tokens(recipe, devices ? devices->size() : 1);
  MemoryPlan plan;
  for (const auto& [course, start, rollback] : possible_phases(recipe)) {
    const MemoryPlan phase = plan_of_phase(from_phase(course, start), data, devices);
    const std::int64_t peak = std::max(plan.peak, phase.peak),
                       telemetry = std::max(plan.telemetry, phase.telemetry),
                       travelling = std::max(plan.travelling, phase.travelling);
    if (phase.step_peak > plan.step_peak) plan = phase;
    plan.peak = peak, plan.telemetry = telemetry, plan.travelling = travelling;
  }
  return plan;
}

std::string bytes_text(double bytes) {
  if (bytes >= 0x1p30) return fmt::format("{:.2f} GiB", bytes / 0x1p30);
  if (bytes >= 0x1p20) return fmt::format("{:.1f} MiB", bytes / 0x1p20);
  return fmt::format("{:.1f} KiB", bytes / 0x1p10);
}

std::string gradients_text(const MemoryPlan& plan) {
  const std::string bytes = bytes_text(double(plan.travelling));
  return plan.travelling == plan.gradients
             ? fmt::format("a strand's gradients travel in {}, f32", bytes)
             : fmt::format("a strand's gradients travel in {}, {:.3g}% of f32's", bytes,
                           100 * double(plan.travelling) / double(plan.gradients));
}

std::int64_t checkpoint_bytes(const MemoryPlan& plan, const Recipe& recipe) {
  constexpr std::int64_t of_a_tensor = 400, of_a_token = 96, other = 12 << 10;
  return plan.checkpoint() + of_a_tensor * plan.tensors + of_a_token * recipe.model.vocabulary +
         std::int64_t(to_toml(without_whereabouts(recipe)).size()) + other;
}

std::int64_t record_bytes(const Recipe& recipe) {
  constexpr std::int64_t of_a_step = 512, other = 16 << 10;
  return of_a_step * recipe.train.steps + other + telemetry_bytes(recipe);
}

}  // namespace mxtape
