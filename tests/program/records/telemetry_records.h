#pragma once
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "core/files/atomic_file.h"

namespace mxtape::test {

inline std::vector<nlohmann::json> records_of(const std::filesystem::path& file) {
  std::vector<nlohmann::json> records;
  std::istringstream in(read_whole_text(file));
  for (std::string line; std::getline(in, line);) records.push_back(nlohmann::json::parse(line));
  return records;
}

/// The one record of this place; fails if there is none or several. `format` may be empty.
inline nlohmann::json record_of(const std::vector<nlohmann::json>& records, std::int64_t step,
                                const std::string& kind, const std::string& layer, const std::string& slot,
                                const std::string& format = "") {
  std::vector<nlohmann::json> found;
  for (const auto& r : records)
    if (r["step"] == step && r["kind"] == kind && r["layer"] == layer && r["slot"] == slot &&
        (format.empty() || r["format"] == format))
      found.push_back(r);
  if (found.size() != 1)
    throw std::runtime_error(
        fmt::format("{} records of step {} {} {} {} {}", found.size(), step, kind, layer, slot, format));
  return found.front();
}

}  // namespace mxtape::test
