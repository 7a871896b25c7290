#include "recipes/text/table_reader.h"

#include <algorithm>
#include <cmath>
#include <sstream>

#include "core/text/nearest_name.h"
#include "core/text/program_name.h"

namespace mxtape {
namespace {

constexpr std::string_view rules_key = "precision.rules", phases_key = "precision.phases";

/// Sets the knob's field from a node. Every refusal names place, key, found and wanted.
class Setter {
 public:
  Setter(const Knob& knob, const toml::node& node, std::string place)
      : knob_(knob), node_(node), place_(std::move(place)) {}
  void set() { std::visit(*this, knob_.field); }

  void operator()(std::int64_t* field) const { *field = integer(); }
  void operator()(std::uint64_t* field) const { *field = std::uint64_t(integer()); }
  void operator()(float* field) const {
    const auto number = node_.value<double>();
    if (!number || !std::isfinite(*number)) refuse();
    // Judged as the f32 that it becomes: 0.99999999999 is not below 1 then, and 1e-50 is nothing.
    const float x = float(*number);
    if (!std::isfinite(x) || (x == 0 && *number != 0) || !std::get<Interval>(knob_.accepts).holds(double(x)))
      refuse(double(x) == *number ? "" : fmt::format("; as an f32 it is {}", x));
    *field = x;
  }
  void operator()(bool* field) const {
    if (!node_.is_boolean()) refuse();
    *field = *node_.value<bool>();
  }
  void operator()(std::string* field) const {
    const std::string text = string();
    if (const auto check = std::get<TextCheck>(knob_.accepts).check) {
      try {
        check(text);
      } catch (const Error& e) {
        std::string_view why = e.what();
        const std::string said = fmt::format("quantizer '{}': ", text);
        if (why.starts_with(said)) why.remove_prefix(said.size());
        fail(ExitCode::usage, "{}: {} = {}; {}", place_, knob_.name, found_text(node_), why);
      }
    }
    *field = text;
  }
  void operator()(const Choice& choice) const {
    const std::string text = string();
    const auto at = std::ranges::find(choice.names, text);
    if (at == choice.names.end())
      fail(ExitCode::usage, "{}: {} = \"{}\"; want {}{}", place_, knob_.name, text, wanted_text(knob_),
           nearest_names(text, choice.names).empty() ? "" : suggestion(text, choice.names));
    *choice.value = std::uint8_t(at - choice.names.begin());
  }
  void operator()(const NamedInteger& field) const {
    if (!node_.is_string()) return operator()(field.value);
    for (const auto& [name, value] : field.names)
      if (name == string()) {
        *field.value = value;
        return;
      }
    refuse();
  }
  void operator()(std::vector<std::string>* field) const {
    auto texts = list_of<std::string>(node_);
    if (!node_.is_array() || texts.size() != node_.as_array()->size()) refuse();
    *field = std::move(texts);
  }

 private:
  [[noreturn]] void refuse(std::string_view reason = "") const {
    fail(ExitCode::usage, "{}: {} = {}; want {}{}", place_, knob_.name, found_text(node_), wanted_text(knob_),
         reason);
  }
  std::int64_t integer() const {
    if (!node_.is_integer() || !std::get<Interval>(knob_.accepts).holds(double(*node_.value<std::int64_t>())))
      refuse();
    return *node_.value<std::int64_t>();
  }
  std::string string() const {
    if (!node_.is_string()) refuse();
    return *node_.value<std::string>();
  }

  const Knob& knob_;
  const toml::node& node_;
  std::string place_;
};

}  // namespace

toml::table parse_toml(const std::string& text, const Source& source) {
  if (const auto deep = too_deep(text))
    fail(ExitCode::usage, "{}: {}",
         source.has_lines ? fmt::format("{}:{}:{}", source.label, deep->line, deep->column) : source.label,
         deep->what);
  try {
    return toml::parse(text, source.label);
  } catch (const toml::parse_error& e) {
    fail(ExitCode::usage, "{}: {}", source.place(e.source()), e.description());
  }
}

std::string found_text(const toml::node& node) {
  if (node.is_table()) return "a table";
  std::ostringstream text;
  text << toml::toml_formatter{node};
  return text.str();
}

TableReader::TableReader(Recipe& recipe, Source source)
    : recipe_(recipe), source_(std::move(source)), knobs_(knobs(recipe)) {
  for (const Knob& knob : knobs_) {
    names_.push_back(knob.name);
    const bool known = std::ranges::find(sections_, knob.section()) != sections_.end();
    if (!knob.section().empty() && !known) sections_.push_back(knob.section());
  }
  names_.insert(names_.end(), {rules_key, phases_key});
}

void TableReader::read_file(const toml::table& table) {
  for (const auto& [key, node] : table) {
    if (key == "extends") continue;
    const bool section = !key.str().empty() && std::ranges::find(sections_, key.str()) != sections_.end();
    if (section && node.is_table()) {
      for (const auto& [inner, value] : *node.as_table())
        read_key(fmt::format("{}.{}", key.str(), inner.str()), inner.source(), value);
    } else if (section) {
      fail(ExitCode::usage, "{}: {} = {}; want a section: [{}]", source_.place(key.source()), key.str(),
           found_text(node), key.str());
    } else {
      read_key(std::string(key.str()), key.source(), node);
    }
  }
}

void TableReader::read_key(const std::string& name, const toml::source_region& at, const toml::node& node) {
  if (name == rules_key) return read_rules(recipe_.precision.rules, name, at, node);
  if (name == phases_key) return read_phases(at, node);
  const Knob* const knob = find(name);
  if (!knob) fail_unknown(name, at);
  Setter(*knob, node, source_.place(at)).set();
  recipe_.origins[name] = source_.line(at);
}

const Knob* TableReader::find(std::string_view name) const {
  const auto found = std::ranges::find(knobs_, name, &Knob::name);
  return found == knobs_.end() ? nullptr : &*found;
}

void TableReader::fail_unknown(const std::string& name, const toml::source_region& at) const {
  require(name != "arm" && name != "base" && name != "baseline", ExitCode::usage,
          "{}: unknown key or section '{}'; a file with it is a sweep's: {} sweep {}", source_.place(at),
          name, program_name(), source_.label);
  const auto dot = name.find('.');
  const bool top = dot == std::string::npos;
  std::vector<std::string_view> known = names_;
  if (top) {  // sections and the keys that stand before the first one
    std::erase_if(known, [](std::string_view other) { return other.find('.') != std::string_view::npos; });
    known.insert(known.begin(), sections_.begin(), sections_.end());
    known.push_back("extends");
  }
  if (nearest_names(name, known).empty() && !top) {
    const std::string_view section = std::string_view(name).substr(0, dot + 1);
    std::erase_if(known, [&](std::string_view other) { return !other.starts_with(section); });
    if (known.empty()) known = sections_;
  }
  fail(ExitCode::usage, "{}: unknown {} '{}'{}", source_.place(at), top ? "key or section" : "key", name,
       suggestion(name, known));
}

/// Reads one table of an array of tables by its own knobs; `nested` gets the keys that are none of them.
template <class Nested>
void TableReader::read_entry(const toml::table& table, std::string_view prefix,
                             std::span<const Knob> entry_knobs, const Nested& nested) {
  std::vector<std::string_view> known;
  for (const Knob& knob : entry_knobs) known.push_back(knob.key());
  for (const auto& [key, node] : table) {
    const auto knob = std::ranges::find(entry_knobs, key.str(), &Knob::key);
    if (knob != entry_knobs.end())
      Setter(*knob, node, source_.place(key.source())).set();
    else if (!nested(key, node, known))
      fail(ExitCode::usage, "{}: unknown key '{}.{}'{}", source_.place(key.source()), prefix, key.str(),
           suggestion(key.str(), known));
  }
}

const toml::array& TableReader::tables(std::string_view name, const toml::source_region& at,
                                       const toml::node& node) const {
  const toml::array* items = node.as_array();
  const bool fits = items && std::ranges::all_of(*items, [](auto& item) { return item.is_table(); });
  require(fits, ExitCode::usage, "{}: {} = {}; want tables: [[{}]]", source_.place(at), name,
          found_text(node), name);
  return *items;
}

void TableReader::read_rules(std::vector<PrecisionRule>& rules, std::string_view name,
                             const toml::source_region& at, const toml::node& node) {
  for (const auto& item : tables(name, at, node)) {
    PrecisionRule rule;
    rule.where = source_.line(item.source());
    read_entry(*item.as_table(), rules_key, knobs(rule), [](auto&, auto&, auto&) { return false; });
    require(!rule.format.empty(), ExitCode::usage, "{}: this rule has no 'format'",
            source_.place(item.source()));
    rules.push_back(std::move(rule));
  }
}

void TableReader::read_phases(const toml::source_region& at, const toml::node& node) {
  for (const auto& item : tables(phases_key, at, node)) {
    PrecisionPhase phase;
    read_entry(*item.as_table(), phases_key, knobs(phase), [&](auto& key, auto& value, auto& known) {
      known.push_back("rules");
      if (key.str() != "rules") return false;
      read_rules(phase.rules, "precision.phases.rules", key.source(), value);
      return true;
    });
    const int given = (phase.start > 0) + (phase.start_tokens > 0) + (phase.start_fraction > 0) +
                      phase.start_of_decay + (phase.start_rollback > 0);
    require(given == 1, ExitCode::usage,
            "{}: this phase has {}; want one of start, start_tokens, start_fraction, start_of_decay and "
            "start_rollback, above 0",
            source_.place(item.source()), given == 0 ? "no 'start'" : "more than one start");
    require(!phase.rules.empty(), ExitCode::usage, "{}: this phase has no rules: [[precision.phases.rules]]",
            source_.place(item.source()));
    recipe_.precision.phases.push_back(std::move(phase));
  }
}

}  // namespace mxtape
