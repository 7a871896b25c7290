#include "program/post_training/measurement.h"

#include "core/error.h"
#include "core/text/nearest_name.h"

namespace mxtape {

Setting parse_setting(const std::string& name) {
  std::vector<std::string_view> known;
  for (const auto& row : settings) {
    if (row.name == name) return row.setting;
    known.push_back(row.name);
  }
  fail(ExitCode::usage, "--setting '{}': no such setting{}", name, suggestion(name, known));
}

Json json_of(const Measurement& m, double f32) {
  Json json{{"precision", m.precision},
            {"setting", name_of(m.setting)},
            {"changed", m.changed},
            {"bits_per_weight", m.bits}};
  put_number(json, "loss", m.loss, m.failure);
  put_number(json, "above_f32", m.loss ? std::optional(*m.loss - f32) : std::nullopt, m.failure);
  put_if_known(json, "kept", m.kept, "--keep was not given");
  json["seconds"] = m.seconds;
  json["layers"] = Json::array();
  for (const LayerDiffusion& layer : m.layers)
    json["layers"].push_back({{"layer", layer.layer},
                              {"format", layer.format},
                              {"shape", {layer.rows, layer.cols}},
                              {"cast_error", layer.direct_error},
                              {"diffused_error", layer.error},
                              {"dead_inputs", layer.dead_inputs},
                              {"moved", layer.moved}});
  return json;
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

}  // namespace mxtape
