#include "program/run/trace.h"

#include <algorithm>
#include <array>

#include "autograd/slots.h"
#include "program/run/profile.h"
#include "recipes/rollbacks.h"
#include "recipes/text/precision_table.h"
#include "train/trainer.h"

namespace mxtape {
namespace {

using Product = Trace::Product;

struct Wanted {
  const char* slot;
  const char* a_name;
  Trace::Side a;
  const char* b_name;
  Trace::Side b;
};
std::array<Wanted, 3> wanted(const LinearQuant& q) {
  const auto b = [&](const Quantizer& quantizer, OperandSource source, const Rotation& own) {
    return Trace::Side{quantizer, source == OperandSource::shared ? q.fprop_rotation : own,
                       source == OperandSource::forward};
  };
  return {
      {{"fprop", "x", {q.fprop_x, q.fprop_rotation}, "w", {q.fprop_w, q.fprop_rotation}},
       {"dgrad", "dy", {q.dgrad_dy, q.dgrad_rotation}, "w", b(q.dgrad_w, q.dgrad_source, q.dgrad_rotation)},
       {"wgrad", "dy", {q.wgrad_dy, q.wgrad_rotation}, "x", b(q.wgrad_x, q.wgrad_source, q.wgrad_rotation)}}};
}

std::string text_of(const Trace::Side& side) {
  return to_text(side.quantizer) + (side.rotation.size ? ", " + to_text(side.rotation) : "") +
         (side.from_forward ? ", from the forward's values" : "");
}

/// Compares one product with what was wanted of it.
void compare(std::vector<std::string>& lines, const std::string& layer, const Wanted& want,
             const Product& ran, GemmKernels kernels) {
  const auto side = [&](const char* name, const Trace::Side& asked, const Trace::Side& found) {
    if (found != asked)
      lines.push_back(fmt::format("{} {} {}: asked for {}, ran {}", layer, want.slot, name, text_of(asked),
                                  text_of(found)));
  };
  side(want.a_name, want.a, ran.a);
  side(want.b_name, want.b, ran.b);
  const std::string_view path = gemm_path(want.a.quantizer, want.b.quantizer, kernels),
                         taken = gemm_path_names[std::size_t(ran.path)];
  if (path != taken) lines.push_back(fmt::format("{} {}: planned {}, ran {}", layer, want.slot, path, taken));
}

/// Compares what else was done in a layer with what was asked for.
template <class T>
void compare_sets(std::vector<std::string>& lines, const std::string& what, const std::vector<T>& asked,
                  const std::vector<T>& ran, const auto& text) {
  const auto missing = [](const std::vector<T>& from, const T& one) {
    return std::find(from.begin(), from.end(), one) == from.end();
  };
  for (const T& one : asked)
    if (missing(ran, one))
      lines.push_back(fmt::format("{}: asked for {}, which did not run", what, text(one)));
  for (const T& one : ran)
    if (missing(asked, one))
      lines.push_back(fmt::format("{}: ran {}, which nobody asked for", what, text(one)));
}

/// `traced` is the slot's name in the trace.
void compare_roundings(std::vector<std::string>& lines, const std::string& layer, std::string_view slot,
                       std::string_view traced, std::vector<Quantizer> asked, const Trace::Found& trace) {
  std::erase_if(asked, [](const Quantizer& q) { return q.is_identity(); });
  std::vector<Quantizer> ran;
  if (const auto of_layer = trace.roundings.find(layer); of_layer != trace.roundings.end())
    if (const auto found = of_layer->second.find(std::string(traced)); found != of_layer->second.end())
      ran = found->second;
  compare_sets(lines, fmt::format("{} {}", layer, slot), asked, ran,
               [](const Quantizer& q) { return to_text(q); });
}

/// Which roundings there are, not of what: strands are added parameter after parameter, in no layer.
void compare_sums(std::vector<std::string>& lines, const PrecisionPlan& plan, const Trace::Found& trace) {
  std::vector<Quantizer> asked;
  for (const auto& [layer, q] : plan.sums)
    if (std::ranges::find(asked, q) == asked.end()) asked.push_back(q);
  compare_roundings(lines, "sum of strands", name_of(Slot::sum_dw), "dw", asked, trace);
}

void compare_ways_back(std::vector<std::string>& lines, const std::string& layer, const LinearQuant& quant,
                       const Trace::Found& trace) {
  using WayBack = Trace::WayBack;
  std::vector<WayBack> asked;
  if (quant.x_ste.kind != SteKind::identity) asked.push_back({quant.fprop_x, quant.x_ste});
  if (quant.w_ste.kind != SteKind::identity) asked.push_back({quant.fprop_w, quant.w_ste});
  const auto found = trace.ways_back.find(layer);
  compare_sets(lines, layer + " gradient", asked,
               found == trace.ways_back.end() ? std::vector<WayBack>{} : found->second,
               [](const WayBack& way) { return to_text(way.ste) + " of " + to_text(way.quantizer); });
}

}  // namespace

std::vector<std::string> differences(const PrecisionPlan& asked, const Trace::Found& trace,
                                     const std::string& device, GemmKernels kernels) {
  const PrecisionPlan plan = realised(asked, device);
  std::vector<std::string> lines;
  for (const auto& [layer, quant] : plan.linear) {
    const auto of_layer = trace.gemms.find(layer);
    for (const Wanted& want : wanted(quant)) {
      const bool ran = of_layer != trace.gemms.end() && of_layer->second.contains(want.slot);
      if (!ran) lines.push_back(fmt::format("{} {}: did not run", layer, want.slot));
      if (ran)
        for (const Product& product : of_layer->second.at(want.slot))
          compare(lines, layer, want, product, kernels);
    }
    compare_roundings(lines, layer, output_slots[0].name, "value", {quant.out}, trace);
    compare_ways_back(lines, layer, asked.linear.at(layer), trace);
  }
  for (const auto& [layer, quant] : plan.parameters) {
    const Slot slot = layer == "embedding" ? Slot::table : Slot::gain;
    compare_roundings(lines, layer, name_of(slot), tensor_of(slot), {quant}, trace);
  }
  compare_sums(lines, plan, trace);
  for (const auto& [layer, slot, said, held] : trace.mislabelled)
    lines.push_back(fmt::format("{} {}: says {}, holds {}", layer, name_of(slot), text_of(said),
                                said == held ? text_of(held) + " of other draws" : text_of(held)));
  for (const auto& [layer, slots] : trace.gemms)
    if (!plan.linear.contains(layer)) lines.push_back(layer + ": ran, and is in no plan");
  for (const auto& [layer, quant] : asked.attention) {
    const auto ran = trace.attention.find(layer);
    if (ran == trace.attention.end()) {
      lines.push_back(layer + ": did not run");
      continue;
    }
    for (const AttentionQuant& found : ran->second) {
      const auto compare_slot = [&](const AttentionSlot& slot) {
        if (found.*slot.field != quant.*slot.field)
          lines.push_back(fmt::format("{} {}: asked for {}, ran {}", layer, slot.name,
                                      to_text(quant.*slot.field), to_text(found.*slot.field)));
      };
      for (const auto& slot : attention_slots) compare_slot(slot);
      compare_slot(score_slot);
    }
  }
  return lines;
}

std::string TraceReport::text() const {
  return fmt::format("{} of linear layers and {} in {}", counted(gemms, "GEMM"),
                     counted(attentions, "attention"), counted(phases, "phase"));
}

TraceReport trace_recipe(const Recipe& recipe) {
  const auto device = make_backend(recipe.compute.device, recipe.compute.options());
  Trace trace;
  ObservingBackend traced(*device, {&trace});
  TraceReport report;
  const auto look_at = [&](const Recipe& course, std::int64_t step, const std::string& label) {
    Recipe phase = course;
    phase.precision.rules = rules_at(course, step);
    phase.precision.phases.clear();
    phase.train.rollbacks.clear();
    phase.train.on_divergence = OnDivergence::stop;
    phase.schedule.start = phase.optim.start = 0;
    phase.train.batch_size = phase.train.accumulation = 1;
    phase.train.strands = std::min<std::int64_t>(course.train.strands, 2);
    const TokenFile tokens = random_tokens(phase);
    Trainer trainer(traced, phase, tokens);
    trace.start();
    trainer.step();
    const Trace::Found found = trace.stop();
    for (const auto& [layer, slots] : found.gemms) report.gemms += std::int64_t(slots.size());
    report.attentions += std::int64_t(found.attention.size());
    ++report.phases;
    for (const auto& line :
         differences(precision_plan(phase, 0), found, recipe.compute.device, recipe.compute.gemm_kernels()))
      report.differences.push_back(label + line);
  };
  for (const std::int64_t step : plan_changes(recipe))
    look_at(recipe, step, step == 0 ? "" : fmt::format("from step {}: ", step));
  for (const std::int64_t n : coming_rollbacks(recipe))
    look_at(as_rolled_back(recipe, n), 0, fmt::format("from rollback {}: ", n));
  return report;
}

}  // namespace mxtape
