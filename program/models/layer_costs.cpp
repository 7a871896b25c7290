#include "program/models/layer_costs.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "program/records/paired_gap.h"
#include "program/show/progress.h"

namespace mxtape {
namespace {

std::vector<std::string> names_of(const ModelConfig& model) {
  std::vector<std::string> names = linear_layer_names(model);
  for (const auto& more : {attention_layer_names(model), parameter_layer_names(model), {"activations"}})
    names.insert(names.end(), more.begin(), more.end());
  return names;
}

/// `plan` with one layer as it is in `rounded`.
PrecisionPlan with_layer(PrecisionPlan plan, const PrecisionPlan& rounded, const std::string& layer) {
  const auto take = [&](auto& to, const auto& from) {
    if (const auto found = from.find(layer); found != from.end()) to[layer] = found->second;
  };
  take(plan.linear, rounded.linear);
  take(plan.attention, rounded.attention);
  take(plan.parameters, rounded.parameters);
  if (layer == "activations") plan.activations = rounded.activations;
  return plan;
}

std::string cost_text(const RoundedLoss& loss) {
  if (std::isnan(loss.error)) return fmt::format("{:+.4f}          ", loss.above_f32);  // of one window
  return fmt::format("{:+.4f} +- {:<6.4f}", loss.above_f32, loss.error);
}

}  // namespace

double LayerLosses::sum() const {
  return std::accumulate(alone.begin(), alone.end(), 0.0,
                         [](double sum, const auto& layer) { return sum + layer.second.above_f32; });
}

LayerCosts layer_costs(const TrainedModel& trained, const Split& split, EvaluateOptions options,
                       std::span<const Cast> casts, std::FILE* out) {
  const Recipe& recipe = trained.header.recipe;
  const std::int64_t context = recipe.model.context;
  const PrecisionPlan f32 = cast_plan(recipe, trained.header.step, {"f32"});
  std::vector<PrecisionPlan> plans;
  LayerCosts costs{.layers = names_of(recipe.model)};
  for (const Cast& cast : casts) {
    plans.push_back(cast_plan(recipe, trained.header.step, cast));
    LayerLosses& losses = costs.precisions.emplace_back(LayerLosses{cast.text()});
    for (const auto& layer : costs.layers)
      if (with_layer(f32, plans.back(), layer) != f32) losses.alone[layer] = {};
    require(!losses.alone.empty(), ExitCode::usage,
            "--by layer: precision '{}' rounds no layer; leave it out", losses.precision);
  }
  std::erase_if(costs.layers, [&](const auto& layer) {
    return std::ranges::none_of(costs.precisions, [&](auto& losses) { return losses.alone.contains(layer); });
  });

  std::size_t passes = 1;
  for (const auto& losses : costs.precisions) passes += 1 + losses.alone.size();
  PassProgress progress(out, passes, true);
  options.progress = [&](std::int64_t done, std::int64_t total) { progress.look(done, total); };
  std::vector<double> unrounded;  // loss of each window
  const auto measure = [&](const std::string& what, const PrecisionPlan& plan) -> RoundedLoss {
    progress.begin(what);
    std::vector<double> windows;
    options.losses = [&](const Tensor& losses) {
      std::vector<float> tokens(std::size_t(losses.count()));
      trained.backend->download(tokens.data(), losses);
      for (auto at = tokens.begin(); at != tokens.end(); at += context)
        windows.push_back(std::accumulate(at, at + context, 0.0) / double(context));
    };
    trained.model->set_precision(plan);
    const double loss = evaluate(*trained.backend, *trained.model, split, options).loss;
    if (unrounded.empty()) unrounded = windows, costs.f32 = loss;
    for (std::size_t i = 0; i < windows.size(); ++i) windows[i] -= unrounded[i];
    return {loss, loss - costs.f32, windows.size() > 1 ? paired_gap(windows, 0).standard_error : NAN};
  };
  measure("f32", f32);
  for (std::size_t i = 0; i < plans.size(); ++i) {
    LayerLosses& losses = costs.precisions[i];
    losses.all = measure(losses.precision, plans[i]);
    for (auto& [layer, loss] : losses.alone)
      loss = measure(losses.precision + " " + layer, with_layer(f32, plans[i], layer));
  }
  progress.end();
  return costs;
}

std::string layer_table(const LayerCosts& costs) {
  std::vector<std::string> layers = costs.layers;
  const auto& first = costs.precisions.front().alone;
  std::stable_sort(layers.begin(), layers.end(), [&](const auto& a, const auto& b) {
    const auto of_a = first.find(a), of_b = first.find(b);
    return of_a != first.end() && (of_b == first.end() || of_a->second.above_f32 > of_b->second.above_f32);
  });
  std::string columns = "|layer";
  for (const auto& losses : costs.precisions) columns += fmt::format("; |{}|>", losses.precision);
  Table table(columns);
  const auto put_line = [&](const std::string& name, const auto& cell) {
    std::vector<Value> cells{name};
    for (const auto& losses : costs.precisions) cells.emplace_back(cell(losses));
    table.row(std::move(cells));
  };
  for (const auto& layer : layers)
    put_line(layer, [&](const LayerLosses& losses) {
      const auto found = losses.alone.find(layer);
      return found == losses.alone.end() ? std::string() : cost_text(found->second);
    });
  put_line("sum of these", [](const LayerLosses& losses) { return fmt::format("{:<+17.4f}", losses.sum()); });
  put_line("all together", [](const LayerLosses& losses) { return cost_text(losses.all); });
  return table.text() +
         "\nloss above f32 when this layer alone is rounded: nats per token; +-: standard error\nover the "
         "windows\n";
}

Value layers_of(const LayerLosses& losses) {
  const auto error = [](const RoundedLoss& loss) { return Value(loss.error, "one window has no spread"); };
  Table layers("layer; loss; above_f32; standard_error");
  for (const auto& [name, loss] : losses.alone) layers.row(name, loss.loss, loss.above_f32, error(loss));
  return object("standard_error", error(losses.all), "sum_of_layers", losses.sum(), "layers", layers);
}

}  // namespace mxtape
