#include "program/telemetry/measurements_json.h"

#include <cmath>

namespace mxtape {

Json json_of(const ErrorStatistics& e) {
  Json json{{"relative_rmse", e.relative_rmse()}};
  put_number(json, "sqnr_db", e.sqnr_db(), "nothing was lost");
  json["cosine"] = e.cosine;
  json["bias"] = e.bias;
  json["clipped"] = e.clipped;
  json["flushed"] = e.flushed;
  json["crest_factor"] = e.crest_factor;
  for (std::size_t k = 0; k < spread_limits.size(); ++k)
    json["spread_over"][fmt::format("{:g}", spread_limits[k])] = e.spread_over[k];
  json["scales"] = Json::object();
  for (const auto& [exponent, blocks] : e.scales) json["scales"][std::to_string(exponent)] = blocks;
  return json;
}

Json json_of_operand(const Measurements::Operand& operand) {
  Json json{{"format", to_text(operand.quantizer)}, {"in_use", operand.in_use}};
  json.update(json_of(operand.errors));
  return json;
}

Json json_of_gradient(const Measurements::Gradient& gradient) {
  return {{"cosine", gradient.cosine}, {"bias", gradient.bias}, {"relative_error", gradient.relative_error}};
}

Json json_of(const Measurements& m) {
  Json json{{"operands", Json::array()}, {"gradients", Json::array()}, {"left_out", Json::array()}};
  const auto add = [&](const char* kind, const auto& one, const Json& rest) {
    Json entry{{"layer", one.layer}, {"slot", one.slot}};
    entry.update(rest);
    json[kind].push_back(std::move(entry));
  };
  for (const auto& operand : m.operands) add("operands", operand, json_of_operand(operand));
  for (const auto& gradient : m.gradients) add("gradients", gradient, json_of_gradient(gradient));
  for (const auto& one : m.left_out) add("left_out", one, {{"reason", one.reason}});
  return json;
}

}  // namespace mxtape
