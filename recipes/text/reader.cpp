#include <algorithm>
#include <charconv>
#include <filesystem>
#include <map>

#include "core/files/atomic_file.h"
#include "core/text/nearest_name.h"
#include "core/text/program_name.h"
#include "recipes/shipped.h"
#include "recipes/text/auto_gemm.h"
#include "recipes/text/fragment.h"
#include "recipes/text/initial_model.h"
#include "recipes/text/nesting.h"
#include "recipes/text/run_folder_of.h"
#include "recipes/text/table_reader.h"

namespace mxtape {
namespace {

struct Document {
  std::string text;
  std::string label;             ///< in messages
  std::string stem;              ///< the name of a recipe that does not say it
  std::string identity;          ///< equal for the same document, however it was named
  std::filesystem::path folder;  ///< that its `extends` starts from
};

Document open_document(const std::string& reference, const std::filesystem::path& folder,
                       const std::string& asked_by) {
  std::vector<std::string_view> names;
  for (const auto& shipped : shipped_recipes()) {
    if (shipped.name == reference) {
      const std::string name(shipped.name);
      const std::string stem = std::filesystem::path(name).filename().string();
      return {std::string(shipped.text), "recipes/" + name + ".toml", stem, "shipped " + name, {}};
    }
    names.push_back(shipped.name);
  }
  const std::filesystem::path path = folder / reference;
  std::error_code error;
  const auto status = std::filesystem::status(path, error);
  const bool no_name =  // of anything that could be there
      error == std::errc::filename_too_long || error == std::errc::too_many_symbolic_link_levels;
  require(std::filesystem::status_known(status) || no_name, ExitCode::resource,
          "{}{}: cannot be looked at: {}", asked_by, path.string(), error.message());
  if (!std::filesystem::is_regular_file(status)) {
    const std::string stem = std::filesystem::path(reference).stem().string();
    // Shipped recipes are too many to list here. They are near by their whole name or by the file's.
    std::string hint = fmt::format("; `{} recipes` lists them", program_name());
    for (const auto& word : {stem, reference})
      if (!nearest_names(word, names).empty()) hint = suggestion(word, names);
    const std::string file = fmt::format("'{}'", path.string());
    const std::string found = !std::filesystem::exists(status)        ? "no recipe file " + file
                              : std::filesystem::is_directory(status) ? file + " is a folder"
                                                                      : file + " is a device or pipe";
    fail(ExitCode::usage, "{}{}, and no shipped recipe has that name{}", asked_by, found, hint);
  }
  try {
    return {read_whole_text(path), path.string(), path.stem().string(),
            std::filesystem::canonical(path).string(), path.parent_path()};
  } catch (const Error& e) {  // half a recipe is another recipe
    fail(ExitCode::resource, "{}{}; want a recipe file that can be read", asked_by, e.what());
  }
}

/// The documents that one extends, in order: a text or a list of texts.
std::vector<std::string> extended_names(const toml::node& node, const std::string& place) {
  const auto* items = node.as_array();
  std::vector<std::string> names;
  if (node.is_string()) names.push_back(*node.value<std::string>());
  if (items)
    for (const auto& item : *items)
      if (item.is_string()) names.push_back(*item.value<std::string>());
  require(!names.empty() && (!items || names.size() == items->size()), ExitCode::usage,
          "{}: extends = {}; want the name of a file or of a shipped recipe, or a list of them", place,
          found_text(node));
  return names;
}

/// Reads what the document extends, then the document. `chain` holds the documents that led here.
void read_document(Recipe& recipe, const Document& document, std::vector<std::string>& chain) {
  const Source source{document.label};
  const toml::table table = parse_toml(document.text, source);
  chain.push_back(document.identity);
  if (const toml::node* extended = table.get("extends")) {
    const std::string place = source.place(extended->source());
    for (const auto& name : extended_names(*extended, place)) {
      const Document base = open_document(name, document.folder, place + ": extends: ");
      require(std::find(chain.begin(), chain.end(), base.identity) == chain.end(), ExitCode::usage,
              "{}: extends '{}': the files extend each other in a circle", place, name);
      read_document(recipe, base, chain);
    }
  }
  chain.pop_back();
  // These say what a file is, not what it extends.
  recipe.name = document.stem;
  recipe.description.clear();
  recipe.origins.erase("name");
  recipe.origins.erase("description");
  TableReader(recipe, source).read_file(table);
}

void apply_override(Recipe& recipe, const std::string& text) {
  const auto equals = text.find('=');
  require(equals != std::string::npos && equals > 0, ExitCode::usage,
          "command line: '{}'; want section.key=value", text);
  const std::string name = text.substr(0, equals), value = text.substr(equals + 1);
  TableReader reader(recipe, Source{"command line", false});
  const Knob* knob = reader.find(name);
  const bool is_text = knob && (std::holds_alternative<std::string*>(knob->field) ||
                                std::holds_alternative<Choice>(knob->field));
  toml::table table;
  if (!is_text && !too_deep("value = " + value)) {
    try {
      table = toml::parse("value = " + value);
    } catch (const toml::parse_error&) {
      table.clear();
    }
  }
  // A text, or what is no TOML value, stands for itself; the latter is refused by its knob in its own words,
  // but for numbers such as .5, to which TOML wants a digit in front.
  if (table.size() != 1 || !table.contains("value")) {
    table.clear();
    double number = 0;
    const auto [end, bad] = std::from_chars(value.data(), value.data() + value.size(), number);
    const bool wants_it = knob && std::holds_alternative<float*>(knob->field);
    if (wants_it && bad == std::errc{} && end == value.data() + value.size())
      table.insert("value", number);
    else
      table.insert("value", value);
  }
  reader.read_key(name, {}, *table.get("value"));
}

/// What the document and the overrides say, not yet held to each other.
void read_keys(Recipe& recipe, const std::string& path_or_name, const std::vector<std::string>& overrides) {
  std::vector<std::string> chain;
  if (!path_or_name.empty()) read_document(recipe, open_document(path_or_name, {}, ""), chain);
  std::map<std::string, std::string> given;
  for (const auto& text : overrides) {
    apply_override(recipe, text);
    const auto [earlier, first] = given.emplace(text.substr(0, text.find('=')), text);
    require(first, ExitCode::usage, "command line: --{} and --{}; want the key once", earlier->second, text);
  }
}

bool same_rule(const PrecisionRule& a, const PrecisionRule& b) {
  return a.layers == b.layers && a.slots == b.slots && a.format == b.format;
}

/// If what follows the first `count` begins with the same again, the first ones go.
template <class T>
void drop_repeated(std::vector<T>& all, std::size_t count, const auto& same) {
  const auto middle = all.begin() + std::ptrdiff_t(count);
  if (all.size() >= 2 * count &&
      std::equal(all.begin(), middle, middle, middle + std::ptrdiff_t(count), same))
    all.erase(all.begin(), middle);
}

}  // namespace

Recipe read_recipe(const std::string& path_or_name, const std::vector<std::string>& overrides) {
  return read_recipe_onto({}, path_or_name, overrides);
}

Recipe read_recipe_onto(Recipe recipe, const std::string& path_or_name,
                        const std::vector<std::string>& overrides) {
  const PrecisionConfig base = recipe.precision;
  read_keys(recipe, path_or_name, overrides);
  drop_repeated(recipe.precision.rules, base.rules.size(), same_rule);
  drop_repeated(recipe.precision.phases, base.phases.size(), [](const auto& a, const auto& b) {
    return a.start == b.start && a.start_tokens == b.start_tokens && a.start_fraction == b.start_fraction &&
           a.start_of_decay == b.start_of_decay && a.start_rollback == b.start_rollback &&
           std::ranges::equal(a.rules, b.rules, same_rule);
  });
  settle_auto_gemm(recipe);
  validate(recipe);
  return recipe;
}

Recipe read_run_recipe(const std::string& path_or_name, const std::vector<std::string>& overrides,
                       const InitialModel& model_of) {
  Recipe recipe;
  read_keys(recipe, path_or_name, overrides);
  if (!recipe.train.init.empty()) take_model(recipe, model_of(recipe.train.init));
  settle_auto_gemm(recipe);
  validate(recipe);
  return recipe;
}

void read_fragment(Recipe& recipe, const std::string& path_or_name, const std::filesystem::path& folder,
                   const std::string& asked_by) {
  std::vector<std::string> chain;
  read_document(recipe, open_document(path_or_name, folder, asked_by), chain);
}

std::string run_folder_of(const std::string& path_or_name, const std::vector<std::string>& overrides) {
  Recipe recipe;
  std::vector<std::string> chain;
  if (!path_or_name.empty()) read_document(recipe, open_document(path_or_name, {}, ""), chain);
  for (const auto& text : overrides) apply_override(recipe, text);
  return recipe.train.out + "/" + recipe.name;
}

Recipe recipe_from_toml(const std::string& text, const std::string& where) {
  Recipe recipe;
  std::vector<std::string> chain;
  read_document(recipe, {text, where, where, where, {}}, chain);
  settle_auto_gemm(recipe);
  validate(recipe);
  return recipe;
}

}  // namespace mxtape
