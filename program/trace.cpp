#include "program/trace.h"

#include <array>

#include "autograd/slots.h"
#include "program/profile.h"
#include "recipes/phases/rollbacks.h"
#include "recipes/text/precision_table.h"
#include "train/trainer.h"

namespace mxtape {
namespace {

using Product = TracingBackend::Product;

struct Wanted {
  const char* slot;
  const char* a_name;
  const Quantizer& a;
  const char* b_name;
  const Quantizer& b;
  Rotation rotation;
};
std::array<Wanted, 3> wanted(const LinearQuant& q) {
  return {{{"fprop", "x", q.fprop_x, "w", q.fprop_w, q.fprop_rotation},
           {"dgrad", "dy", q.dgrad_dy, "w", q.dgrad_w, q.dgrad_rotation},
           {"wgrad", "dy", q.wgrad_dy, "x", q.wgrad_x, q.wgrad_rotation}}};
}

std::string text_of(const Quantizer& q, const Rotation& rotation) {
  return to_text(q) + (rotation.size ? ", " + to_text(rotation) : "");
}

/// Compares one product with what was wanted of it.
void compare(std::vector<std::string>& lines, const std::string& layer, const Wanted& want,
             const Product& ran, Products products) {
  const auto side = [&](const char* name, const Quantizer& asked, const TracingBackend::Side& found) {
    if (found.quantizer != asked || found.rotation != want.rotation)
      lines.push_back(fmt::format("{} {} {}: asked for {}, ran {}", layer, want.slot, name,
                                  text_of(asked, want.rotation), text_of(found.quantizer, found.rotation)));
  };
  side(want.a_name, want.a, ran.a);
  side(want.b_name, want.b, ran.b);
  const std::string_view path = gemm_path(want.a, want.b, products),
                         taken = gemm_path_names[std::size_t(ran.path)];
  if (path != taken) lines.push_back(fmt::format("{} {}: planned {}, ran {}", layer, want.slot, path, taken));
}

}  // namespace

std::vector<std::string> differences(const PrecisionPlan& asked, const TracingBackend::Trace& trace,
                                     const std::string& device, GemmKernels kernels) {
  const PrecisionPlan plan = realised(asked, device);
  const Products products{bf16_products(device), kernels};
  std::vector<std::string> lines;
  for (const auto& [layer, quant] : plan.linear) {
    const auto of_layer = trace.gemms.find(layer);
    for (const Wanted& want : wanted(quant)) {
      const bool ran = of_layer != trace.gemms.end() && of_layer->second.contains(want.slot);
      if (!ran) lines.push_back(fmt::format("{} {}: did not run", layer, want.slot));
      if (ran)
        for (const Product& product : of_layer->second.at(want.slot))
          compare(lines, layer, want, product, products);
    }
  }
  for (const auto& [layer, slots] : trace.gemms)
    if (!plan.linear.contains(layer)) lines.push_back(layer + ": ran, and is in no plan");
  for (const auto& [layer, quant] : asked.attention) {
    const auto ran = trace.attention.find(layer);
    if (ran == trace.attention.end()) {
      lines.push_back(layer + ": did not run");
      continue;
    }
    for (const AttentionQuant& found : ran->second)
      for (const auto& slot : attention_slots)
        if (found.*slot.field != quant.*slot.field)
          lines.push_back(fmt::format("{} {}: asked for {}, ran {}", layer, slot.name,
                                      to_text(quant.*slot.field), to_text(found.*slot.field)));
  }
  return lines;
}

std::string TraceReport::text() const {
  return fmt::format("{} GEMM{} of linear layers and {} attention{} in {} phase{}", gemms,
                     gemms == 1 ? "" : "s", attentions, attentions == 1 ? "" : "s", phases,
                     phases == 1 ? "" : "s");
}

TraceReport trace_recipe(const Recipe& recipe) {
  const auto device = make_backend(recipe.compute.device, recipe.compute.options());
  TracingBackend traced(*device);
  TraceReport report;
  const auto look_at = [&](const Recipe& course, std::int64_t step, const std::string& label) {
    Recipe phase = course;
    phase.precision.rules = rules_at(course, step);
    phase.precision.phases.clear();
    phase.train.rollbacks.clear();
    phase.train.on_divergence = OnDivergence::stop;
    phase.schedule.start = phase.optim.start = 0;
    phase.train.batch_size = phase.train.accumulation = 1;
    const TokenFile tokens = random_tokens(phase);
    Trainer trainer(traced, phase, tokens);
    traced.start();
    trainer.step();
    const TracingBackend::Trace trace = traced.stop();
    for (const auto& [layer, slots] : trace.gemms) report.gemms += std::int64_t(slots.size());
    report.attentions += std::int64_t(trace.attention.size());
    ++report.phases;
    for (const auto& line :
         differences(precision_plan(phase, 0), trace, recipe.compute.device, recipe.compute.gemm_kernels()))
      report.differences.push_back(label + line);
  };
  for (const std::int64_t step : plan_changes(recipe))
    look_at(recipe, step, step == 0 ? "" : fmt::format("from step {}: ", step));
  for (const std::int64_t n : coming_rollbacks(recipe))
    look_at(as_rolled_back(recipe, n), 0, fmt::format("from rollback {}: ", n));
  return report;
}

}  // namespace mxtape
