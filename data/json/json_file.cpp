#include "data/json/json_file.h"

#include <nlohmann/json.hpp>
#include <set>
#include <vector>

#include "core/files/in_file.h"
#include "core/files/random_access.h"
#include "core/text/short_lines.h"
#include "data/json/json_section.h"
#include "data/stand_in.h"

namespace mxtape {

using nlohmann::json;

json parse_json_strictly(std::string_view text, int deepest) {
  std::vector<std::set<std::string>> keys;
  const auto check = [&](int depth, json::parse_event_t event, json& value) {
    require(depth <= deepest, ExitCode::data, "JSON nested deeper than {}", deepest);
    if (event == json::parse_event_t::object_start) keys.emplace_back();
    if (event == json::parse_event_t::object_end) keys.pop_back();
    if (event == json::parse_event_t::key)
      require(keys.back().insert(value.get<std::string>()).second, ExitCode::data,
              "the key {} occurs twice in one object", shown_json(value));
    return true;
  };
  try {
    return json::parse(text, check);
  } catch (const json::exception& error) {
    fail(ExitCode::data, "{}", json_reason(error));
  }
}

json read_json_file(const std::filesystem::path& path) {
  constexpr std::uint64_t largest = 100'000'000;
  const RandomAccessFile file(path);
  require(file.size() <= largest, ExitCode::data, "{}: {} bytes; want at most {}", path.string(), file.size(),
          largest);
  const std::string text = file.beginning(std::size_t(file.size()));
  require_no_stand_in(path, text, text.size());
  return in_file(path, [&] { return parse_json_strictly(text); });
}

}  // namespace mxtape
