#include "program/telemetry/measurements_json.h"

#include <cmath>

namespace mxtape {

Json json_of(const ErrorStatistics& e) {
  Json spread = Json::object(), scales = Json::object();
  for (std::size_t k = 0; k < spread_limits.size(); ++k)
    spread[fmt::format("{:g}", spread_limits[k])] = e.spread_over[k];
  for (const auto& [exponent, blocks] : e.scales) scales[std::to_string(exponent)] = blocks;
  return object("relative_rmse", e.relative_rmse(), "sqnr_db", Value(e.sqnr_db(), "nothing was lost"),
                "cosine", e.cosine, "bias", e.bias, "clipped", e.clipped, "flushed", e.flushed,
                "crest_factor", e.crest_factor, "spread_over", spread, "scales", scales);
}

Json json_of_operand(const Measurements::Operand& operand) {
  return object("format", to_text(operand.quantizer), "in_use", operand.in_use, "*", json_of(operand.errors));
}

Json json_of_gradient(const Measurements::Gradient& g) {
  return object("cosine", g.cosine, "bias", g.bias, "relative_error", g.relative_error);
}

Json json_of(const Measurements& m) {
  Table operands("layer; slot; *"), gradients("layer; slot; *"), left_out("layer; slot; reason");
  for (const auto& operand : m.operands) operands.row(operand.layer, operand.slot, json_of_operand(operand));
  for (const auto& gradient : m.gradients)
    gradients.row(gradient.layer, gradient.slot, json_of_gradient(gradient));
  for (const auto& one : m.left_out) left_out.row(one.layer, one.slot, one.reason);
  return object("operands", operands.json(), "gradients", gradients.json(), "left_out", left_out.json());
}

}  // namespace mxtape
