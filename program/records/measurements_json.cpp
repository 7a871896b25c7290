#include "program/records/measurements_json.h"

namespace mxtape {

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

}  // namespace mxtape
