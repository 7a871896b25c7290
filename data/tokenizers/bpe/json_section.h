#pragma once
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <string_view>

#include "core/error.h"
#include "data/tokenizers/unicode/utf8.h"

namespace mxtape {

/// An object of a tokenizer.json that is read key by key. Whatever is not what it should be throws
/// Error(data) with the path of the value; done() refuses the keys that nobody asked for.
class JsonSection {
 public:
  using Json = nlohmann::json;
  JsonSection(const Json& object, std::string path) : object_(object), path_(std::move(path)) {
    require(object.is_object(), ExitCode::data, "{}: is {}; want an object", path_, object.type_name());
  }

  const std::string& path() const { return path_; }
  std::string path(std::string_view key) const { return fmt::format("{}.{}", path_, key); }

  /// The value, or nullptr where there is none or null.
  const Json* find(const std::string& key) {
    asked_.insert(key);
    const auto found = object_.find(key);
    return found == object_.end() || found->is_null() ? nullptr : &*found;
  }
  const Json& at(const std::string& key) {
    const Json* const found = find(key);
    require(found != nullptr, ExitCode::data, "{}: is missing", path(key));
    return *found;
  }
  const Json& array(const std::string& key) { return typed(at(key), key, Json::value_t::array); }
  JsonSection section(const std::string& key) { return {at(key), path(key)}; }
  const std::string& text(const std::string& key) {
    return typed(at(key), key, Json::value_t::string).get_ref<const std::string&>();
  }
  std::string text_or(const std::string& key, const std::string& otherwise) {
    return find(key) ? text(key) : otherwise;
  }
  bool flag(const std::string& key, bool otherwise = false) {
    const Json* const found = find(key);
    return found ? typed(*found, key, Json::value_t::boolean).get<bool>() : otherwise;
  }
  std::int64_t integer(const std::string& key) { return integer_of(at(key), path(key)); }
  void ignore(const std::string& key) { asked_.insert(key); }

  void done() const {
    for (const auto& [key, value] : object_.items())
      require(asked_.count(key) > 0, ExitCode::data, "{}: the key {} is not understood", path_,
              shown_text(key));
  }
  template <class... Args>
  [[noreturn]] void refuse(std::string_view key, std::string_view found, std::string_view known) const {
    fail(ExitCode::data, "{} = {} is not understood; mxtape has {}", path(key), shown_text(found), known);
  }

  /// A whole number of at most 31 bits, not negative.
  static std::int64_t integer_of(const Json& value, const std::string& path) {
    const bool fits = value.is_number_unsigned() && value.get<std::uint64_t>() <= 0x7fffffff;
    require(fits, ExitCode::data, "{}: {}; want a whole number from 0 to {}", path,
            value.dump().substr(0, 40), 0x7fffffff);
    return value.get<std::int64_t>();
  }

 private:
  const Json& typed(const Json& value, const std::string& key, Json::value_t type) const {
    require(value.type() == type, ExitCode::data, "{}: is {}; want {}", path(key), value.type_name(),
            Json(type).type_name());
    return value;
  }

  const Json& object_;
  std::string path_;
  std::set<std::string> asked_;
};

}  // namespace mxtape
