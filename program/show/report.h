#pragma once
#include <cstdint>
#include <deque>
#include <filesystem>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "core/error.h"

// What a command has to say: filled once, printed for people or, with --json, for programs (docs/json.md).
namespace mxtape {

/// "1 step", "3 steps".
std::string counted(auto count, std::string_view what) {
  return fmt::format("{} {}{}", count, what, count == 1 ? "" : "s");
}

/// Fields stay in the order in which they are set.
using Json = nlohmann::ordered_json;

class Table;
template <class T>
inline constexpr bool is_optional = false;
template <class T>
inline constexpr bool is_optional<std::optional<T>> = true;

/// A member or a cell: true or false, a number, a text, a path, a list of these, an object or a table. With a
/// reason, what JSON cannot say (NaN, infinity) and what is not there (no value, an empty text) are null, and
/// <key>_reason says why.
class Value {
 public:
  Value() : Value(nullptr) {}
  template <class T>
  requires(!std::is_same_v<T, Value> && !is_optional<T>)
      Value(const T& value, std::string why = {}, std::optional<std::string> text = {})
      : why(std::move(why)), text(std::move(text)) {
    if constexpr (std::is_same_v<T, Json> || std::is_same_v<T, Table> || std::is_same_v<T, bool> ||
                  std::is_same_v<T, std::nullptr_t>)
      set(value);
    else if constexpr (std::is_integral_v<T> && std::is_signed_v<T>)
      set(std::int64_t(value));
    else if constexpr (std::is_integral_v<T>)
      set(std::uint64_t(value));
    else if constexpr (std::is_floating_point_v<T>)
      set(double(value));
    else if constexpr (std::is_convertible_v<T, std::string_view>)
      set(std::string_view(value));
    else if constexpr (std::is_same_v<T, std::filesystem::path>)
      set(std::string_view(value.native()));
    else
      set(std::vector<Value>(value.begin(), value.end()));
  }
  template <class T>
  Value(const std::optional<T>& value, std::string why = {}, std::string if_none = "-") : Value() {
    if (value) *this = Value(*value);
    if (!value) text = std::move(if_none);
    this->why = std::move(why);
  }
  std::shared_ptr<Json> json;
  std::string why;
  std::optional<std::string> text;  ///< for people, instead of the value

 private:
  void set(const Json&), set(const Table&), set(bool), set(std::nullptr_t), set(std::int64_t),
      set(std::uint64_t), set(double), set(std::string_view), set(const std::vector<Value>&);
};
/// Into an object. Under "*" the value, an object, gives its own members.
void put(Value& object, std::string_view key, const Value&);
template <class... Rest>
requires(sizeof...(Rest) > 0) void put(Value& object, std::string_view key, const Value& value,
                                       const Rest&... rest) {
  put(object, key, value);
  put(object, rest...);
}
/// Of keys and values in turn.
Value object();
template <class... Members>
requires(sizeof...(Members) > 0) Value object(const Members&... members) {
  Value made = object();
  put(made, members...);
  return made;
}
/// Of JSON's text, and as such, a line each member. Numbers have as many digits as it takes to read the same
/// bits back.
Value parsed(const std::string& json);
std::string json_text(const Value&), json_line(const Value&);
/// An array of objects; for people, columns as wide as their widest cell.
class Table {
 public:
  /// `columns`: "key | heading | form | spare" of each, a semicolon between two. Without a key a column is
  /// for people alone, without a heading for programs alone; "~" is an empty one. The form is as in Python:
  /// "<" words to the left, what it is if nothing is said; ">" to the right, ">10.4g" at least ten wide,
  /// ">.1%" of a share. What is spare is left out where the lines are too long, 1 before 2.
  explicit Table(std::string_view columns, std::string indent = {}, std::size_t gap = 2);

  struct Column {
    std::string key, heading, form;
    int spare;
  };
  struct Row {
    std::vector<Value> cells;
    std::string rest{};   ///< for people, instead of the cells behind the first
    std::string above{};  ///< for people; the headings stand under it once more
    std::string below{};  ///< for people
    enum class For : std::uint8_t { all, people, programs } whom = For::all;
  };
  template <class... Cells>
  Row& row(const Cells&... cells) {
    return row(std::vector<Value>{Value(cells)...});
  }
  Row& row(std::vector<Value> cells);
  std::size_t rows() const { return rows_.size(); }
  const std::vector<Column>& columns() const { return columns_; }
  /// Its `text` is what people see.
  Value cell(std::size_t row, std::size_t column) const;
  /// In lines of at most `width` columns, if enough can be left out; 0: all columns. Without rows nothing.
  std::string text(std::size_t width = 0) const;
  Value object(std::size_t row) const;

 private:
  friend class Value;
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
  void print(bool as_json);
  /// For people what is known so far, at once; print() goes on behind it.
  void show(bool as_json) {
    if (!as_json) print(false);
  }

  std::size_t width = 0;
  /// What is said on standard error after it; the first one gives the exit code.
  std::vector<Error> problems;

 private:
  struct Item {
    std::string text{}, key{};
    std::optional<Table> table{};
  };
  std::deque<Item> items_;
  Value json_ = object();  // where a table comes, null
};

}  // namespace mxtape
