#include "program/lineage.h"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace mxtape {
namespace {

nlohmann::ordered_json json_of(const Turn& turn) {
  const char* const event = turn.rollback         ? "rollback"
                            : turn.init           ? "init"
                            : turn.parent.empty() ? "change"
                                                  : "branch";
  nlohmann::ordered_json json{{"step", turn.step}, {"event", event}};
  if (turn.rollback) json["number"] = turn.rollback, json["from"] = turn.from;
  if (!turn.parent.empty()) json["parent"] = turn.parent, json["hash"] = turn.hash;
  if (!turn.fresh.empty()) json["fresh"] = turn.fresh;
  json["changed"] = turn.changed;
  return json;
}

}  // namespace

std::string Turn::to_json() const { return json_of(*this).dump(); }

bool is_lost_turn(const std::string& record, std::int64_t step, const std::string& lineage) {
  if (record.find("\"event\"") == std::string::npos) return false;  // nearly all
  const auto turn = nlohmann::ordered_json::parse(record);
  const std::string event = turn.value("event", "");
  if (turn.value("step", std::int64_t(-1)) != step ||
      (event != "branch" && event != "init" && event != "change"))
    return false;
  const auto all = lineage.empty() ? nlohmann::ordered_json::array() : nlohmann::ordered_json::parse(lineage);
  return std::find(all.begin(), all.end(), turn) == all.end();
}

std::string with_turn(const std::string& lineage, const Turn& turn) {
  auto all = lineage.empty() ? nlohmann::ordered_json::array() : nlohmann::ordered_json::parse(lineage);
  all.push_back(json_of(turn));
  return all.dump();
}

}  // namespace mxtape
