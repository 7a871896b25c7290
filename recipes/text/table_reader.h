#pragma once
#include <toml++/toml.h>

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "recipes/knobs.h"

// What the readers of recipes and of sweeps share. No other file sees toml++.
namespace mxtape {

/// Where a table was written: a file's name, or "command line".
struct Source {
  std::string label;
  bool has_lines = true;
  std::string place(const toml::source_region& region) const {
    return has_lines ? fmt::format("{}:{}:{}", label, region.begin.line, region.begin.column) : label;
  }
  std::string line(const toml::source_region& region) const {
    return has_lines ? fmt::format("{}:{}", label, region.begin.line) : label;
  }
};

/// Throws Error(usage) with file, line and column.
toml::table parse_toml(const std::string& text, const Source&);

/// A node as a message shows it.
std::string found_text(const toml::node&);

/// The items of a list, as far as they are of this type; empty if one is not.
template <class T>
std::vector<T> list_of(const toml::node& node) {
  std::vector<T> all;
  if (const toml::array* items = node.as_array())
    for (const auto& item : *items)
      if (const auto value = item.value<T>()) all.push_back(*value);
  return node.is_array() && all.size() == node.as_array()->size() ? all : std::vector<T>();
}

/// Puts parsed tables into a recipe, key by key, by the knob table. Whatever no knob knows or accepts throws
/// Error(usage) with place, key, found and wanted.
class TableReader {
 public:
  TableReader(Recipe&, Source);

  /// All keys of a file but `extends`.
  void read_file(const toml::table&);
  /// One key by its full name, "section.key".
  void read_key(const std::string& name, const toml::source_region& at, const toml::node&);
  /// The knob of that name, or null.
  const Knob* find(std::string_view name) const;

 private:
  [[noreturn]] void fail_unknown(const std::string& name, const toml::source_region& at) const;
  template <class Nested>
  void read_entry(const toml::table&, std::string_view prefix, std::span<const Knob>, const Nested&);
  const toml::array& tables(std::string_view name, const toml::source_region& at, const toml::node&) const;
  void read_rules(std::vector<PrecisionRule>&, std::string_view name, const toml::source_region& at,
                  const toml::node&);
  void read_phases(const toml::source_region& at, const toml::node&);

  Recipe& recipe_;
  Source source_;
  std::vector<Knob> knobs_;
  std::vector<std::string_view> names_, sections_;
};

/// The first place where a text is nested too deep to be a recipe.
struct Nesting {
  std::size_t line, column;  ///< from 1, column in bytes
  std::string what;          ///< what was found, and what is wanted
};

/// toml++ calls itself for every part of a dotted key and for every array in an array, so a text of some
/// 100,000 bytes ends the program on an overflowing stack. A recipe needs a depth of three. This looks at the
/// text without parsing it: what it lets through may still be no TOML.
std::optional<Nesting> too_deep(std::string_view text);

}  // namespace mxtape
