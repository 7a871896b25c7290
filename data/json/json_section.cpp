#include "data/json/json_section.h"

#include <cmath>
#include <utility>

#include "core/error.h"

namespace mxtape {

std::string shown_json(const nlohmann::json& value) {
  constexpr std::size_t longest = 80;
  // Texts of unknown encoding must not throw here.
  const std::string text = value.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
  return text.size() > longest ? text.substr(0, longest) + "..." : text;
}

JsonSection::JsonSection(const Json& object, std::string place, std::string_view between)
    : object_(object), place_(std::move(place)), prefix_(place_ + std::string(between)) {
  require(object.is_object(), ExitCode::data, "{}: is {}; want an object", place_, shown_json(object));
}

const JsonSection::Json* JsonSection::find(const std::string& key) {
  asked_.insert(key);
  const auto found = object_.find(key);
  return found == object_.end() || found->is_null() ? nullptr : &*found;
}

const JsonSection::Json& JsonSection::at(const std::string& key) {
  const Json* const found = find(key);
  require(found != nullptr, ExitCode::data, "{} is missing", path(key));
  return *found;
}

void JsonSection::wrong(const std::string& key, const Json& found, std::string_view wanted) const {
  fail(ExitCode::data, "{} = {}; want {}", path(key), shown_json(found), wanted);
}

const JsonSection::Json& JsonSection::array(const std::string& key) {
  const Json& found = at(key);
  if (!found.is_array()) wrong(key, found, "a list");
  return found;
}

const std::string& JsonSection::text(const std::string& key) {
  const Json& found = at(key);
  if (!found.is_string()) wrong(key, found, "a text");
  return found.get_ref<const std::string&>();
}
std::string JsonSection::text_or(const std::string& key, const std::string& otherwise) {
  return has(key) ? text(key) : otherwise;
}

bool JsonSection::flag(const std::string& key, bool otherwise) {
  const Json* const found = find(key);
  if (!found) return otherwise;
  if (!found->is_boolean()) wrong(key, *found, "true or false");
  return found->get<bool>();
}

std::int64_t JsonSection::integer_of(const Json& value, const std::string& path, std::int64_t low,
                                     std::int64_t high) {
  const bool fits = value.is_number_integer() &&
                    !(value.is_number_unsigned() && value.get<std::uint64_t>() > std::uint64_t(high)) &&
                    value.get<std::int64_t>() >= low && value.get<std::int64_t>() <= high;
  require(fits, ExitCode::data, "{} = {}; want a whole number from {} to {}", path, shown_json(value), low,
          high);
  return value.get<std::int64_t>();
}
std::int64_t JsonSection::integer(const std::string& key, std::int64_t low, std::int64_t high) {
  return integer_of(at(key), path(key), low, high);
}
std::int64_t JsonSection::integer_or(const std::string& key, std::int64_t low, std::int64_t high,
                                     std::int64_t otherwise) {
  return has(key) ? integer(key, low, high) : otherwise;
}

double JsonSection::number(const std::string& key) {
  const Json& found = at(key);
  if (!found.is_number() || !std::isfinite(found.get<double>())) wrong(key, found, "a finite number");
  return found.get<double>();
}
double JsonSection::number_or(const std::string& key, double otherwise) {
  return has(key) ? number(key) : otherwise;
}
double JsonSection::positive_or(const std::string& key, double otherwise) {
  const double value = number_or(key, otherwise);
  // As f32, which is what is computed with.
  if (!(float(value) > 0) || !std::isfinite(float(value))) wrong(key, value, "a number > 0");
  return value;
}

void JsonSection::require_neutral(const std::string& key, const Json& neutral, const char* why) {
  const Json* const found = find(key);
  require(!found || *found == neutral, ExitCode::data, "{} = {}: {}; mxtape has {}", path(key),
          shown_json(found ? *found : Json()), why, shown_json(neutral));
}

void JsonSection::refuse(const std::string& key, std::string_view known) {
  const Json* const found = find(key);
  fail(ExitCode::data, "{} = {}; mxtape has {}", path(key), shown_json(found ? *found : Json()), known);
}

std::vector<std::string> JsonSection::unknown() const {
  std::vector<std::string> keys;
  for (const auto& [key, value] : object_.items())
    if (!asked_.count(key)) keys.push_back(key);
  return keys;
}

void JsonSection::done() const {
  if (const auto keys = unknown(); !keys.empty())
    fail(ExitCode::data, "{}: the key {} is not understood", place_, shown_json(keys.front()));
}

}  // namespace mxtape
