#pragma once
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace mxtape {

/// An object of a JSON file that is read key by key. Whatever is not what it should be throws Error(data)
/// with its place, what is there and what is wanted. A key with null is absent.
class JsonSection {
 public:
  using Json = nlohmann::json;
  static constexpr std::int64_t largest_id = std::numeric_limits<std::int32_t>::max();

  /// `between`: what stands between the place and a key, ": " where the place is a file.
  JsonSection(const Json& object, std::string place, std::string_view between = ".");

  const std::string& path() const { return place_; }
  std::string path(std::string_view key) const { return prefix_ + std::string(key); }

  const Json* find(const std::string& key);  ///< nullptr if there is none, or null
  bool has(const std::string& key) { return find(key) != nullptr; }
  bool contains(const std::string& key) const { return object_.contains(key); }  ///< null counts
  const Json& at(const std::string& key);
  const Json& array(const std::string& key);
  JsonSection section(const std::string& key) { return {at(key), path(key)}; }
  const std::string& text(const std::string& key);
  std::string text_or(const std::string& key, const std::string& otherwise);
  bool flag(const std::string& key, bool otherwise = false);
  std::int64_t integer(const std::string& key, std::int64_t low = 0, std::int64_t high = largest_id);
  std::int64_t integer_or(const std::string& key, std::int64_t low, std::int64_t high,
                          std::int64_t otherwise);
  double number(const std::string& key);  ///< finite
  double number_or(const std::string& key, double otherwise);
  double positive_or(const std::string& key, double otherwise);  ///< > 0

  /// These keys change nothing that is computed here.
  void ignore(std::initializer_list<const char*> keys) { asked_.insert(keys.begin(), keys.end()); }
  /// Throws if the key is there with another value. `why`: what that would mean.
  void require_neutral(const std::string& key, const Json& neutral, const char* why);
  /// Throws: the key, its value, and what mxtape has.
  [[noreturn]] void refuse(const std::string& key, std::string_view known);
  [[noreturn]] void wrong(const std::string& key, const Json& found, std::string_view wanted) const;
  /// Keys that nobody asked for, sorted.
  std::vector<std::string> unknown() const;
  /// Throws if there are such keys.
  void done() const;

  /// A whole number of an array or of an object without fixed keys.
  static std::int64_t integer_of(const Json& value, const std::string& path, std::int64_t low = 0,
                                 std::int64_t high = largest_id);

 private:
  const Json& object_;
  std::string place_, prefix_;
  std::set<std::string> asked_;
};

/// A value for a message: at most 80 bytes of it, in ASCII.
std::string shown_json(const nlohmann::json&);

}  // namespace mxtape
