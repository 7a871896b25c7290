#include "program/records/telemetry.h"

#include <algorithm>

#include "autograd/linear_operands.h"

namespace mxtape {
namespace {

/// The layers whose weights are followed. A quarter of the numbers is enough: every step of the window is
/// looked at.
std::vector<LinearWeight> weights_to_follow(Trainer& trainer, const TelemetryPlan& plan) {
  std::vector<LinearWeight> weights;
  for (const LinearWeight& weight : trainer.model().linear_weights())
    if (plan.wants(weight.layer, "fprop.w")) weights.push_back(weight);
  return weights;
}

/// By layer and slot: the order of the computation depends on where a run began.
template <class Found>
void in_order(std::vector<Found>& all, const TelemetryPlan& plan) {
  const auto place = [&](const Found& one) {
    return std::pair(std::ranges::find(plan.layers, one.layer), std::ranges::find(plan.slots, one.slot));
  };
  std::ranges::stable_sort(all, {}, place);
}

std::string tag(const std::string& slot, const std::string& layer, std::string_view measure) {
  return fmt::format("telemetry/{}/{}/{}", slot, layer, measure);
}

}  // namespace

Measure::Options measuring_options(const Recipe& recipe) {
  const TelemetryPlan plan = telemetry_plan(recipe);
  return {
      .others = plan.formats,
      .sample = recipe.telemetry.sample,
      .wants = [plan](const std::string& layer, const std::string& slot) { return plan.wants(layer, slot); },
      .unrounded = !plan.formats.empty()};
}

Telemetry::Telemetry(Measure& measure, Backend& backend, Trainer& trainer, const std::filesystem::path& jsonl,
                     EventFile& events)
    : measure_(measure),
      backend_(backend),
      trainer_(trainer),
      config_(trainer.recipe().telemetry),
      plan_(telemetry_plan(trainer.recipe())),
      lines_(jsonl, trainer.steps_done()),
      events_(events),
      oscillation_(backend, weights_to_follow(trainer, plan_), config_.sample / 4, trainer.recipe().seed) {}

Telemetry::~Telemetry() { (void)measure_.stop(); }

/// The first measured step from the next one on.
std::int64_t Telemetry::next_measurement() const {
  return (trainer_.steps_done() / config_.every + 1) * config_.every;
}

void Telemetry::before_step() {
  const std::int64_t step = trainer_.steps_done() + 1, measured = next_measurement();
  const bool follows = oscillation_.is_on() || step > measured - std::min(config_.window, config_.every);
  if (follows || step == measured) gather_weights(trainer_.state());
  if (!oscillation_.is_on() && follows) oscillation_.begin();
  if (step == measured) start(measure_, backend_, trainer_.model());
}

void Telemetry::abandon() {
  (void)measure_.stop();
  if (oscillation_.is_on() && config_.measures(trainer_.steps_done() + 1)) (void)oscillation_.end();
}

void Telemetry::after_step() {
  if (oscillation_.is_on()) {
    gather_weights(trainer_.state());
    oscillation_.look();
  }
  last_ = {};
  if (config_.measures(trainer_.steps_done())) write(last_ = measure_.stop(), oscillation_.end());
}

void Telemetry::write(Measurements found, const std::vector<Oscillation::Found>& weights) {
  in_order(found.operands, plan_);
  in_order(found.gradients, plan_);
  const std::int64_t step = trainer_.steps_done();
  const double now = seconds_since_1970();
  std::string records;
  const auto add = [&](const char* kind, const std::string& layer, const std::string& slot,
                       const Value& rest) {
    const Value record = object("step", step, "kind", kind, "layer", layer, "slot", slot, "*", rest);
    if (!records.empty()) records += '\n';
    records += json_line(record);
  };
  for (const auto& operand : found.operands) {
    add("operand", operand.layer, operand.slot, value_of_operand(operand));
    const ErrorStatistics& e = operand.errors;
    const auto show = [&](std::string_view measure, double value) {
      events_.scalar(tag(operand.slot, operand.layer, measure), step, value, now);
    };
    if (!operand.in_use) {
      show("relative_rmse in " + to_text(operand.quantizer), e.relative_rmse());
      continue;
    }
    show("relative_rmse", e.relative_rmse());
    show("clipped", e.clipped);
    show("flushed", e.flushed);
    show("spread_over_10", e.spread_over[1]);
    events_.histogram(tag(operand.slot, operand.layer, "scales"), step, e.scales, now);
  }
  for (const auto& gradient : found.gradients) {
    add("gradient", gradient.layer, gradient.slot, value_of_gradient(gradient));
    for (const auto& [measure, value] : {std::pair("cosine", gradient.cosine),
                                         {"bias", gradient.bias},
                                         {"relative_error", gradient.relative_error}})
      events_.scalar(tag(gradient.slot, gradient.layer, measure), step, value, now);
  }
  for (const auto& weight : weights) {
    add("weight", weight.layer, "fprop.w",
        object("format", to_text(weight.quantizer), "window", weight.steps, "count", weight.weights,
               "oscillation", weight.ratio, "oscillating", weight.share));
    events_.scalar(tag("fprop.w", weight.layer, "oscillation"), step, weight.ratio, now);
    events_.scalar(tag("fprop.w", weight.layer, "oscillating"), step, weight.share, now);
  }
  if (!records.empty()) lines_.add(records);
  events_.flush();
}

Value value_of(const ErrorStatistics& e) {
  Value spread = object(), scales = object();
  for (std::size_t k = 0; k < spread_limits.size(); ++k)
    put(spread, fmt::format("{:g}", spread_limits[k]), e.spread_over[k]);
  for (const auto& [exponent, blocks] : e.scales) put(scales, std::to_string(exponent), blocks);
  return object("relative_rmse", e.relative_rmse(), "sqnr_db", Value(e.sqnr_db(), "nothing was lost"),
                "cosine", e.cosine, "bias", e.bias, "clipped", e.clipped, "flushed", e.flushed,
                "crest_factor", e.crest_factor, "spread_over", spread, "scales", scales);
}

Value value_of_operand(const Measurements::Operand& operand) {
  return object("format", to_text(operand.quantizer), "in_use", operand.in_use, "*",
                value_of(operand.errors));
}

Value value_of_gradient(const Measurements::Gradient& g) {
  return object("cosine", g.cosine, "bias", g.bias, "relative_error", g.relative_error);
}

Value value_of(const Measurements& m) {
  Table operands("layer; slot; *"), gradients("layer; slot; *"), left_out("layer; slot; reason");
  for (const auto& operand : m.operands) operands.row(operand.layer, operand.slot, value_of_operand(operand));
  for (const auto& gradient : m.gradients)
    gradients.row(gradient.layer, gradient.slot, value_of_gradient(gradient));
  for (const auto& one : m.left_out) left_out.row(one.layer, one.slot, one.reason);
  return object("operands", operands, "gradients", gradients, "left_out", left_out);
}

void start(Measure& measure, Backend& backend, Model& model) {
  const std::vector<LinearWeight> all = model.linear_weights();
  std::map<std::uint32_t, Measure::Weight> weights;
  for (const LinearWeight& w : all) weights[w.tensor_id] = {w.layer, w.parameter.value};
  measure.start(std::move(weights));
  for (const LinearWeight& w : all)
    for (const Rounded& copy : own_copies(w.parameter))
      measure.measure_copy(backend, copy,
                           copy.by.again ? value_of(backend, w.parameter.copies.fprop) : w.parameter.value);
}

}  // namespace mxtape
