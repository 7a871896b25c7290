#include "program/records/lineage.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/files/atomic_file.h"

namespace mxtape {
namespace {

using Json = nlohmann::ordered_json;

Json turns_of(const std::string& lineage) { return lineage.empty() ? Json::array() : Json::parse(lineage); }

Json json_of(const Turn& turn) {
  const char* const event = turn.rollback         ? turn.from == turn.step ? "switch" : "rollback"
                            : turn.init           ? "init"
                            : turn.parent.empty() ? "change"
                                                  : "branch";
  Json json{{"step", turn.step}, {"event", event}};
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
  const auto turn = Json::parse(record);
  const std::string event = turn.value("event", "");
  if (turn.value("step", std::int64_t(-1)) != step ||
      (event != "branch" && event != "init" && event != "change"))
    return false;
  const Json all = turns_of(lineage);
  return std::find(all.begin(), all.end(), turn) == all.end();
}

std::int64_t first_step(const std::string& lineage) {
  std::int64_t step = 0;
  for (const Json& turn : turns_of(lineage))
    if (!turn.contains("number")) step = turn.value("step", step);
  return step;
}

std::string with_turn(const std::string& lineage, const Turn& turn) {
  Json all = turns_of(lineage);
  all.push_back(json_of(turn));
  return all.dump();
}

void write_parent(const std::filesystem::path& json, const std::filesystem::path& from,
                  const std::filesystem::path& file, const Turn& turn) {
  Json text{{"run", std::filesystem::absolute(from).string()},
            {"checkpoint", std::filesystem::absolute(file).string()}};
  text.update(json_of(turn));
  write_atomically(json, text.dump(2) + "\n");
}

std::string lineage_text(const std::string& lineage) {
  std::string text;
  for (const Json& turn : turns_of(lineage)) {
    const std::string event = turn.value("event", ""), parent = turn.value("parent", "");
    const std::string from =
        turn.contains("from") ? fmt::format(", from step {}", turn.value("from", 0)) : "";
    text += fmt::format(
        "{:<10} {}{}\n", event, event == "init" ? "" : fmt::format(" at step {}", turn.value("step", 0)),
        parent.empty() ? from : fmt::format(" of {}, content hash {}", parent, turn.value("hash", "")));
    for (const Json& change : turn["changed"]) text += fmt::format("  {}\n", change.get<std::string>());
  }
  return text;
}

}  // namespace mxtape
