#include "program/post_training/post_training.h"

#include <nlohmann/json.hpp>

#include "core/error.h"
#include "core/text/nearest_name.h"

namespace mxtape {

Setting parse_setting(const std::string& name) {
  for (const auto& row : settings)
    if (row.name == name) return row.setting;
  fail(ExitCode::usage, "--setting '{}': no such setting{}", name, suggestion(name, names_in(settings)));
}

const Measurement* find_measurement(std::span<const Measurement> all, const std::string& precision,
                                    Setting setting) {
  for (const Measurement& m : all)
    if (m.precision == precision && m.setting == setting) return &m;
  return nullptr;
}

Value value_of(const Measurement& m, double f32) {
  Table layers("layer; format; shape; cast_error; diffused_error; dead_inputs; moved");
  for (const LayerDiffusion& layer : m.layers)
    layers.row(layer.layer, layer.format, std::array{layer.rows, layer.cols}, layer.direct_error, layer.error,
               layer.dead_inputs, layer.moved);
  return object("precision", m.precision, "setting", name_of(m.setting), "changed", m.changed,
                "bits_per_weight", m.bits, "loss", Value(m.loss, m.failure), "above_f32",
                Value(m.loss ? std::optional(*m.loss - f32) : std::nullopt, m.failure), "kept",
                Value(m.kept, "--keep was not given"), "seconds", m.seconds, "layers", layers);
}

Measurement measurement_of(const Json& json) {
  Measurement m{.precision = json.at("precision"),
                .setting = parse_setting(json.at("setting")),
                .changed = json.at("changed"),
                .bits = json.at("bits_per_weight"),
                .seconds = json.at("seconds")};
  if (json.at("loss").is_null())
    m.failure = json.at("loss_reason");
  else
    m.loss = json["loss"].get<double>();
  if (!json.at("kept").is_null()) m.kept = json["kept"];
  for (const Json& layer : json.at("layers"))
    m.layers.push_back({.layer = layer.at("layer"),
                        .format = layer.at("format"),
                        .rows = layer.at("shape").at(0),
                        .cols = layer.at("shape").at(1),
                        .direct_error = layer.at("cast_error"),
                        .error = layer.at("diffused_error"),
                        .dead_inputs = layer.at("dead_inputs"),
                        .moved = layer.at("moved")});
  return m;
}

Value value_of(const PostTraining& p) {
  std::vector<Value> results;
  for (const Measurement& m : p.measurements) results.push_back(value_of(m, p.f32));
  return object("checkpoint", p.checkpoint, "checkpoint_hash", p.checkpoint_hash, "step", p.step, "data",
                p.data, "data_hash", p.data_hash, "arithmetic", p.arithmetic, "windows", p.windows,
                "all_windows", p.all_windows, "context", p.context, "calibration",
                object("split", "train", "windows", p.options.calibration, "seed", p.options.seed), "damping",
                p.options.damping, "diffusion_bytes", p.diffusion_bytes, "cast_directly", p.tied, "finetune",
                object("steps", p.options.finetune.steps, "sequences_per_step", p.finetune_batch,
                       "learning_rate", p.options.finetune.learning_rate),
                "attention", p.options.attention, "floor",
                Value(p.floor, "the data does not carry its entropy"), "f32", p.f32, "results", results);
}

}  // namespace mxtape
