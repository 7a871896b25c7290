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

Json json_of(const Measurements& m) {
  Json json{{"operands", Json::array()}, {"gradients", Json::array()}, {"weights", Json::array()}};
  for (const auto& operand : m.operands) {
    Json entry{{"layer", operand.layer},
               {"slot", operand.slot},
               {"format", to_text(operand.quantizer)},
               {"in_use", operand.in_use}};
    entry.update(json_of(operand.errors));
    json["operands"].push_back(std::move(entry));
  }
  for (const auto& gradient : m.gradients)
    json["gradients"].push_back({{"layer", gradient.layer},
                                 {"slot", gradient.slot},
                                 {"cosine", gradient.cosine},
                                 {"bias", gradient.bias}});
  for (const auto& weight : m.weights)
    json["weights"].push_back({{"layer", weight.layer}, {"oscillation", weight.ratio}});
  return json;
}

}  // namespace mxtape
