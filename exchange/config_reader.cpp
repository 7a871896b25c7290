#include "exchange/config_reader.h"

#include <cmath>
#include <limits>
#include <utility>

#include "core/error.h"
#include "data/safetensors/header.h"

namespace mxtape {
namespace {

constexpr std::size_t longest_value = 80;

std::string shown(const nlohmann::json& value) {
  // Texts of unknown encoding must not throw here.
  const std::string text = value.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
  return text.size() > longest_value ? text.substr(0, longest_value) + "..." : text;
}

}  // namespace

ConfigReader::ConfigReader(const Json& object, std::string where)
    : object_(object), where_(std::move(where)) {
  require(object.is_object(), ExitCode::data, "{}: is {}; want an object", where_, shown(object));
}

const ConfigReader::Json* ConfigReader::find(const std::string& key) {
  asked_.insert(key);
  const auto found = object_.find(key);
  return found == object_.end() || found->is_null() ? nullptr : &*found;
}

void ConfigReader::wrong(const std::string& key, const Json& found, const std::string& wanted) const {
  fail(ExitCode::data, "{}{} = {}; want {}", where_, key, shown(found), wanted);
}

std::int64_t ConfigReader::integer(const std::string& key, std::int64_t low, std::int64_t high) {
  const Json* const found = find(key);
  require(found != nullptr, ExitCode::data, "{}{} is missing", where_, key);
  const bool fits = found->is_number_integer() &&
                    !(found->is_number_unsigned() && found->get<std::uint64_t>() > std::uint64_t(high)) &&
                    found->get<std::int64_t>() >= low && found->get<std::int64_t>() <= high;
  if (!fits) wrong(key, *found, fmt::format("a whole number from {} to {}", low, high));
  return found->get<std::int64_t>();
}
std::int64_t ConfigReader::integer_or(const std::string& key, std::int64_t low, std::int64_t high,
                                      std::int64_t otherwise) {
  return has(key) ? integer(key, low, high) : otherwise;
}

double ConfigReader::number(const std::string& key) {
  const Json* const found = find(key);
  require(found != nullptr, ExitCode::data, "{}{} is missing", where_, key);
  if (!found->is_number() || !std::isfinite(found->get<double>())) wrong(key, *found, "a finite number");
  return found->get<double>();
}
double ConfigReader::number_or(const std::string& key, double otherwise) {
  return has(key) ? number(key) : otherwise;
}
double ConfigReader::positive_or(const std::string& key, double otherwise) {
  const double value = number_or(key, otherwise);
  // As f32, which is what is computed with.
  if (!(float(value) > 0) || !std::isfinite(float(value))) wrong(key, value, "a number > 0");
  return value;
}

bool ConfigReader::flag_or(const std::string& key, bool otherwise) {
  const Json* const found = find(key);
  if (!found) return otherwise;
  if (!found->is_boolean()) wrong(key, *found, "true or false");
  return found->get<bool>();
}

std::string ConfigReader::text(const std::string& key) {
  const Json* const found = find(key);
  require(found != nullptr, ExitCode::data, "{}{} is missing", where_, key);
  if (!found->is_string()) wrong(key, *found, "a text");
  return found->get<std::string>();
}
std::string ConfigReader::text_or(const std::string& key, const std::string& otherwise) {
  return has(key) ? text(key) : otherwise;
}

std::vector<std::int64_t> ConfigReader::ids(const std::string& key) {
  const Json* const found = find(key);
  if (!found) return {};
  constexpr std::int64_t largest = std::numeric_limits<std::int32_t>::max();
  constexpr std::size_t most = 1024;  // known models list a handful
  const auto is_id = [](const Json& one) {
    if (one.is_number_unsigned()) return one.get<std::uint64_t>() <= std::uint64_t(largest);
    return one.is_number_integer() && one.get<std::int64_t>() >= -1 && one.get<std::int64_t>() <= largest;
  };
  std::vector<std::int64_t> ids;
  const Json list = found->is_array() ? *found : Json::array({*found});
  require(list.size() <= most, ExitCode::data, "{}{} is a list of {} token ids; want at most {}", where_, key,
          list.size(), most);
  for (const Json& one : list) {
    if (!is_id(one)) wrong(key, *found, "a token id, or a list of them");
    if (one.get<std::int64_t>() >= 0) ids.push_back(one.get<std::int64_t>());  // -1: none
  }
  return ids;
}

void ConfigReader::require_neutral(const std::string& key, const Json& neutral, const char* why) {
  const Json* const found = find(key);
  require(!found || *found == neutral, ExitCode::data, "{}{} = {}: {}; mxtape has {}", where_, key,
          shown(found ? *found : Json()), why, shown(neutral));
}

void ConfigReader::refuse(const std::string& key, const std::string& known) {
  const Json* const found = find(key);
  fail(ExitCode::data, "{}{} = {}; mxtape has {}", where_, key, shown(found ? *found : Json()), known);
}

std::vector<std::string> ConfigReader::unknown() const {
  std::vector<std::string> keys;
  for (const auto& [key, value] : object_.items())
    if (!asked_.count(key)) keys.push_back(shown_name(key));
  return keys;
}

}  // namespace mxtape
