#include "program/show/report.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>

namespace mxtape {
namespace {

/// Of a form, ">+10.4g": how wide at least.
std::size_t width_of(const std::string& form) {
  const auto at = form.find_first_not_of("<>+");
  return at == form.npos ? 0 : std::strtoul(form.c_str() + at, nullptr, 10);
}

std::string text_of(const Value& value, const std::string& form) {
  const Json& json = *value.json;
  if (value.text) return *value.text;
  if (json.is_null()) return "-";
  if (json.is_string()) return json.get<std::string>();
  if (!json.is_number()) return json.dump();
  const std::size_t point = form.find('.');
  if (point == std::string::npos)
    return json.is_number_float() ? fmt::format("{}", json.get<double>()) : json.dump();
  std::string digits = form.substr(point);
  const bool share = digits.back() == '%';
  if (share) digits.back() = 'f';
  const std::string sign = form.find('+') == std::string::npos ? "" : "+";
  return fmt::format(fmt::runtime("{:" + sign + digits + "}"), (share ? 100 : 1) * json.get<double>()) +
         (share ? "%" : "");
}

}  // namespace

void Value::set(const Json& x) { json = std::make_shared<Json>(x); }
void Value::set(bool x) { set(Json(x)); }
void Value::set(std::nullptr_t) { set(Json()); }
void Value::set(std::int64_t x) { set(Json(x)); }
void Value::set(std::uint64_t x) { set(Json(x)); }
void Value::set(double x) { set(Json(x)); }
void Value::set(std::string_view x) { set(Json(x)); }
void Value::set(const std::vector<Value>& all) {
  set(Json::array());
  for (const Value& one : all) json->push_back(*one.json);
}
void Value::set(const Table& table) {
  set(Json::array());
  for (std::size_t i = 0; i < table.rows_.size(); ++i)
    if (table.rows_[i].whom != Table::Row::For::people) json->push_back(*table.object(i).json);
}

Value object() { return Json::object(); }
Value parsed(const std::string& json) { return Json::parse(json); }

std::string json_text(const Value& value) {
  // A file's name need not be UTF-8, a JSON text must be.
  return value.json->dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::string json_line(const Value& value) { return value.json->dump(); }

void put(Value& object, std::string_view key, const Value& value) {
  if (object.json.use_count() > 1) object = Value(*object.json);
  Json &to = *object.json, &json = *value.json;
  if (key == "*") return to.update(json);
  const bool known = json.is_number_float() ? std::isfinite(json.get<double>())
                     : json.is_string()     ? !json.get_ref<const std::string&>().empty()
                                            : !json.is_null();
  to[std::string(key)] = known || value.why.empty() ? json : Json();
  if (!known && !value.why.empty()) to[std::string(key) + "_reason"] = value.why;
}

Table::Table(std::string_view columns, std::string indent, std::size_t gap)
    : indent_(std::move(indent)), gap_(gap) {
  const auto take = [](std::string_view& text, char end) {  // up to `end`, without blanks around
    const std::string_view piece = text.substr(0, text.find(end));
    text.remove_prefix(std::min(piece.size() + 1, text.size()));
    const std::size_t first = piece.find_first_not_of(' ');
    return first == piece.npos ? std::string()
                               : std::string(piece.substr(first, piece.find_last_not_of(' ') - first + 1));
  };
  while (!columns.empty()) {
    const std::string whole = take(columns, ';');
    std::string_view text = whole;
    const std::string key = take(text, '|');
    std::string heading = take(text, '|'), form = take(text, '|');
    std::ranges::replace(heading, '~', ' ');
    columns_.push_back({key, heading, form.empty() ? "<" : form, std::atoi(take(text, '|').c_str())});
  }
}

Table::Row& Table::row(std::vector<Value> cells) {
  require(cells.size() == columns_.size(), "a row of {} cells in a table of {} columns", cells.size(),
          columns_.size());
  return rows_.emplace_back(Row{.cells = std::move(cells)});
}

std::string Table::text(std::size_t width) const {
  std::vector<std::vector<std::string>> cells(rows_.size());
  std::vector<std::size_t> widths, shown;
  for (std::size_t i = 0; i < columns_.size(); ++i) {
    widths.push_back(std::max(width_of(columns_[i].form), columns_[i].heading.size()));
    if (!columns_[i].heading.empty()) shown.push_back(i);
    for (std::size_t k = 0; k < rows_.size(); ++k)
      if (rows_[k].whom != Row::For::programs && (i == 0 || rows_[k].rest.empty()))
        widths[i] =
            std::max(widths[i], cells[k].emplace_back(text_of(rows_[k].cells[i], columns_[i].form)).size());
  }
  const auto length = [&] {
    std::size_t sum = indent_.size() + gap_ * (shown.size() - 1);
    for (const std::size_t i : shown) sum += widths[i];
    return sum;
  };
  while (width != 0 && length() > width) {
    const auto rank = [&](std::size_t i) { return columns_[i].spare ? columns_[i].spare : 1 << 20; };
    const auto first = std::ranges::min_element(shown, [&](auto a, auto b) { return rank(a) < rank(b); });
    if (columns_[*first].spare == 0) break;
    shown.erase(first);
  }
  const auto line_of = [&](const auto& cell) {
    std::string line = indent_;
    for (const std::size_t i : shown)
      line +=
          fmt::format(fmt::runtime(columns_[i].form[0] == '<' ? "{:<{}}" : "{:>{}}"), cell(i), widths[i]) +
          std::string(gap_, ' ');
    return line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
  };
  std::string text;
  for (std::size_t k = 0; k < rows_.size(); ++k) {
    const Row& row = rows_[k];
    if (row.whom == Row::For::programs) continue;
    if (text.empty() || !row.above.empty())
      text += row.above + line_of([&](std::size_t i) { return columns_[i].heading; });
    text += row.rest.empty()
                ? line_of([&](std::size_t i) { return cells[k][i]; })
                : fmt::format("{}{:<{}}{:{}}{}\n", indent_, cells[k][0], widths[0], "", gap_, row.rest);
    text += row.below;
  }
  return text;
}

Value Table::cell(std::size_t row, std::size_t column) const {
  Value value = rows_[row].cells[column];
  value.text = text_of(value, columns_[column].form);
  return value;
}

Value Table::object(std::size_t row) const {
  Value object = mxtape::object();
  for (std::size_t i = 0; i < columns_.size(); ++i)
    if (!columns_[i].key.empty()) put(object, columns_[i].key, rows_[row].cells[i]);
  return object;
}

Table& Report::table(const std::string& key, std::string_view columns, std::string indent, std::size_t gap) {
  if (!key.empty()) put(key, nullptr);
  return *items_.emplace_back(Item{.key = key, .table = Table(columns, std::move(indent), gap)}).table;
}

void Report::print(bool as_json) {
  for (const Item& item : items_) {
    if (!as_json) fmt::print("{}", item.table ? item.table->text(width) : item.text);
    if (as_json && !item.key.empty()) put(item.key, *item.table);
  }
  if (as_json) fmt::print("{}", json_text(json_));
  if (!as_json) items_.clear(), std::fflush(stdout);
}

}  // namespace mxtape
