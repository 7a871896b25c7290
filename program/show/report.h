#pragma once
#include <fmt/format.h>

#include <cstdint>
#include <deque>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

// What a command has to say: filled once, printed for people or, with --json, for programs (docs/json.md).
namespace mxtape {

/// Fields stay in the order in which they are set.
using Json = nlohmann::ordered_json;

/// One document and a line break on standard output. Numbers have as many digits as it takes to read the same
/// bits back.
void print_json(const Json&);

/// A member or a cell. With a reason, what JSON cannot say (NaN, infinity) and what is not there (no value,
/// an empty text) are null, and <key>_reason says why.
struct Value {
  template <class T>
  requires(!std::is_same_v<T, Value> && std::is_constructible_v<Json, const T&>)
      Value(const T& value, std::string why = {}, std::optional<std::string> text = {})
      : json(value), why(std::move(why)), text(std::move(text)) {}
  template <class T>
  Value(const std::optional<T>& value, std::string why = {}, std::string if_none = "-")
      : why(std::move(why)) {
    if (value)
      json = *value;
    else
      text = std::move(if_none);
  }
  Json json;
  std::string why;
  std::optional<std::string> text;  ///< for people, instead of the value
};
/// Under "*" the value, an object, gives its own members.
void put(Json& object, const std::string& key, const Value&);
template <class... Rest>
requires(sizeof...(Rest) > 0) void put(Json& object, const std::string& key, const Value& value,
                                       const Rest&... rest) {
  put(object, key, value);
  put(object, rest...);
}
/// Of keys and values in turn.
template <class... Members>
Json object(const Members&... members) {
  Json json = Json::object();
  put(json, members...);
  return json;
}

/// An array of objects; for people, columns as wide as their widest cell.
class Table {
 public:
  /// `columns`: "key | heading | form | spare" of each, a semicolon between two. Without a key a column is
  /// for people alone, without a heading for programs alone; "~" is an empty one. The form is as in Python:
  /// "<" words to the left, what it is if nothing is said; ">" to the right, ">10.4g" at least ten wide,
  /// ">.1%" of a share. What is spare is left out where the lines are too long, 1 before 2.
  explicit Table(std::string_view columns, std::string indent = {}, std::size_t gap = 2);

  struct Row {
    std::vector<Value> cells;
    std::string above{};  ///< for people; the headings stand under it once more
    std::string below{};  ///< for people
    enum class For : std::uint8_t { all, people, programs } whom = For::all;
  };
  template <class... Cells>
  Row& row(const Cells&... cells) {
    return row(std::vector<Value>{Value(cells)...});
  }
  Row& row(std::vector<Value> cells);
  /// In lines of at most `width` columns, if enough can be left out; 0: all columns. Without rows nothing.
  std::string text(std::size_t width = 0) const;
  Json json() const;

 private:
  struct Column {
    std::string key, heading, form;
    int spare;
  };
  std::vector<Column> columns_;
  std::deque<Row> rows_;
  std::string indent_;
  std::size_t gap_;
};

class Report {
 public:
  /// For people alone, as it is.
  void text(std::string text) { items_.push_back({.text = std::move(text)}); }
  /// The same, and a line break.
  template <class... Args>
  void line(fmt::format_string<Args...> form, Args&&... args) {
    text(fmt::format(form, std::forward<Args>(args)...) + "\n");
  }
  /// For programs alone.
  template <class... Members>
  void put(const Members&... members) {
    mxtape::put(json_, members...);
  }
  /// For both; without a key for people alone. It stays where it is.
  Table& table(const std::string& key, std::string_view columns, std::string indent = {},
               std::size_t gap = 2);
  /// On standard output, text in lines of at most `width` columns.
  void print(bool as_json, std::size_t width = 0) const;
  Json json() const;

 private:
  struct Item {
    std::string text{}, key{};
    std::optional<Table> table{};
  };
  std::deque<Item> items_;
  Json json_ = Json::object();  // where a table comes, null
};

}  // namespace mxtape
