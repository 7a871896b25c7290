#pragma once
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace mxtape {

/// An object of a config.json that is read key by key. A value of the wrong type or range throws Error(data)
/// with the file, the key, what is there and what is wanted. A key with null is absent.
class ConfigReader {
 public:
  using Json = nlohmann::json;
  /// `where`: the file, and the key of an inner object: "models/x/config.json: rope_scaling.".
  ConfigReader(const Json& object, std::string where);

  const std::string& where() const { return where_; }
  bool has(const std::string& key) { return find(key) != nullptr; }
  bool contains(const std::string& key) const { return object_.contains(key); }  ///< null counts
  std::int64_t integer(const std::string& key, std::int64_t low, std::int64_t high);
  std::int64_t integer_or(const std::string& key, std::int64_t low, std::int64_t high,
                          std::int64_t otherwise);
  double number(const std::string& key);  ///< finite
  double number_or(const std::string& key, double otherwise);
  double positive_or(const std::string& key, double otherwise);  ///< > 0
  bool flag_or(const std::string& key, bool otherwise);
  std::string text(const std::string& key);
  std::string text_or(const std::string& key, const std::string& otherwise);
  /// A token id or a list of at most 1,024; empty if there is none. -1 is none.
  std::vector<std::int64_t> ids(const std::string& key);
  const Json* find(const std::string& key);  ///< nullptr if there is none, or null

  /// These keys change no number that is computed here.
  void harmless(std::initializer_list<const char*> keys) { asked_.insert(keys.begin(), keys.end()); }
  /// Throws if the key is there with another value. `why`: what that would mean.
  void require_neutral(const std::string& key, const Json& neutral, const char* why);
  /// Throws: the key, its value, and what mxtape has.
  [[noreturn]] void refuse(const std::string& key, const std::string& known);
  /// Keys that nobody asked for, sorted.
  std::vector<std::string> unknown() const;

 private:
  [[noreturn]] void wrong(const std::string& key, const Json& found, const std::string& wanted) const;

  const Json& object_;
  std::string where_;
  std::set<std::string> asked_;
};

}  // namespace mxtape
