#include "recipes/text/reader.h"

#include <algorithm>
#include <map>
#include <set>

#include "core/files/atomic_file.h"
#include "core/files/status.h"
#include "core/text/nearest_name.h"
#include "core/text/number.h"
#include "core/text/program_name.h"
#include "recipes/rollbacks.h"
#include "recipes/shipped.h"
#include "recipes/text/table_reader.h"

namespace mxtape {
namespace {

/// A recipe, found and not yet read.
struct Document {
  std::string label;             ///< in messages
  std::string stem;              ///< the name of a recipe that does not say it
  std::string identity;          ///< equal for the same document, however it was named
  std::filesystem::path folder;  ///< that its `extends` starts from
  std::function<std::string()> read;
};

Document find_document(const std::string& reference, const std::filesystem::path& folder,
                       const std::string& asked_by) {
  for (const auto& shipped : shipped_recipes())
    if (shipped.name == reference) {
      const std::string name(shipped.name);
      const std::string stem = std::filesystem::path(name).filename().string();
      return {"recipes/" + name + ".toml", stem, "shipped " + name, {}, [text = shipped.text] {
                return std::string(text);
              }};
    }
  const std::filesystem::path path = folder / reference;
  std::filesystem::file_status status;
  try {
    status = status_of(path);
  } catch (const Error& e) {
    fail(e.code(), "{}{}", asked_by, e.what());
  }
  if (!std::filesystem::is_regular_file(status)) {
    const std::string stem = std::filesystem::path(reference).stem().string();
    // Shipped recipes are too many to list here. They are near by their whole name or by the file's.
    const auto names = names_in(shipped_recipes());
    std::string hint = fmt::format("; `{} recipes` lists them", program_name());
    for (const auto& word : {stem, reference})
      if (!nearest_names(word, names).empty()) hint = suggestion(word, names);
    const std::string file = fmt::format("'{}'", path.string());
    const std::string found = !std::filesystem::exists(status) ? "no recipe file " + file + near_path(path)
                              : std::filesystem::is_directory(status) ? file + " is a folder"
                                                                      : file + " is a device or pipe";
    fail(ExitCode::usage, "{}{}, and no shipped recipe has that name{}", asked_by, found, hint);
  }
  std::error_code error;
  const std::string identity = std::filesystem::canonical(path, error).string();
  require(!error, ExitCode::resource, "{}{}: cannot be looked at: {}", asked_by, path.string(),
          error.message());
  return {path.string(), path.stem().string(), identity, path.parent_path(), [path, asked_by] {
            try {
              return read_whole_text(path);
            } catch (const Error& e) {  // half a recipe is another recipe
              fail(ExitCode::resource, "{}{}; want a recipe file that can be read", asked_by, e.what());
            }
          }};
}

/// A document as it is put on top of others.
struct Layer {
  Source source;
  std::string stem;
  toml::table table;
};

/// The document and all that it extends, the last to be put on first. A document is read once: of several
/// places that it has in the order, its keys and rules win at the last one, and the others change nothing.
std::vector<Layer> layers_of(const Document& top) {
  struct Visit {
    Document document;
    bool leaves = false;  ///< all that it extends has been visited
  };
  std::vector<Layer> layers;
  std::vector<Visit> to_do{{top}};  // no recursion: a chain may be long
  std::set<std::string> seen, open;
  while (!to_do.empty()) {
    const auto [document, leaves] = std::move(to_do.back());
    to_do.pop_back();
    if (leaves) open.erase(document.identity);
    if (leaves || !seen.insert(document.identity).second) continue;
    open.insert(document.identity);
    to_do.push_back({document, true});
    const Source source{document.label};
    layers.push_back({source, document.stem, parse_toml(document.read(), source)});
    const toml::node* extended = layers.back().table.get("extends");
    if (!extended) continue;
    const std::string place = source.place(extended->source());
    const auto names = extended->is_string() ? std::vector{*extended->value<std::string>()}
                                             : list_of<std::string>(*extended);
    require(!names.empty(), ExitCode::usage,
            "{}: extends = {}; want the name of a file or of a shipped recipe, or a list of them", place,
            found_text(*extended));
    for (const auto& name : names) {
      const Document base = find_document(name, document.folder, place + ": extends: ");
      require(!open.contains(base.identity), ExitCode::usage,
              "{}: extends '{}': the files extend each other in a circle", place, name);
      if (!seen.contains(base.identity)) to_do.push_back({base});
    }
  }
  return layers;
}

/// Reads what the document extends, then the document.
void read_document(Recipe& recipe, const Document& document) {
  const auto layers = layers_of(document);
  for (auto layer = layers.rbegin(); layer != layers.rend(); ++layer) {
    // These say what a file is, not what it extends.
    recipe.name = layer->stem;
    recipe.description.clear();
    recipe.origins.erase("name");
    recipe.origins.erase("description");
    TableReader(recipe, layer->source).read_file(layer->table);
  }
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
    const bool wants_it = knob && std::holds_alternative<float*>(knob->field);
    if (const auto number = number_of<double>(value); wants_it && number)
      table.insert("value", *number);
    else
      table.insert("value", value);
  }
  reader.read_key(name, {}, *table.get("value"));
}

/// What the document and the overrides say, not yet held to each other.
void read_keys(Recipe& recipe, const std::string& path_or_name, const std::vector<std::string>& overrides) {
  if (!path_or_name.empty()) read_document(recipe, find_document(path_or_name, {}, ""));
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

/// The first `count` go if the others begin with them; the others go if the first end with them.
template <class T>
void drop_repeated(std::vector<T>& all, std::ptrdiff_t count, const auto& same) {
  const auto middle = all.begin() + count, end = all.end();
  if (end - middle >= count && std::equal(all.begin(), middle, middle, same))
    all.erase(all.begin(), middle);
  else if (end - middle < count && std::equal(middle, end, middle - (end - middle), same))
    all.erase(middle, end);
}

void settle_auto_gemm(Recipe& r) {
  if (r.compute.gemm != GemmChoice::automatic) return;
  const auto shares = [](const PrecisionPlan& plan) {
    return std::any_of(plan.linear.begin(), plan.linear.end(), [](const auto& layer) {
      const LinearQuant& quant = layer.second;
      return quant.dgrad_source == OperandSource::shared || quant.wgrad_source == OperandSource::shared;
    });
  };
  const auto may = [&](const PossiblePhase& phase) {
    return shares(precision_plan(phase.course, phase.step));
  };
  if (std::ranges::none_of(possible_phases(r), may)) return;
  r.compute.gemm = GemmChoice::library;
  r.origins["compute.gemm"] = "auto, with source=shared";
}

}  // namespace

void settle_and_validate(Recipe& recipe) {
  settle_auto_gemm(recipe);
  validate(recipe);
}

Recipe read_recipe(const std::string& path_or_name, const std::vector<std::string>& overrides) {
  return read_recipe_onto({}, path_or_name, overrides);
}

Recipe read_recipe_onto(Recipe recipe, const std::string& path_or_name,
                        const std::vector<std::string>& overrides) {
  const PrecisionConfig base = recipe.precision;
  read_keys(recipe, path_or_name, overrides);
  drop_repeated(recipe.precision.rules, std::ssize(base.rules), same_rule);
  drop_repeated(recipe.precision.phases, std::ssize(base.phases), [](const auto& a, const auto& b) {
    return a.start == b.start && a.start_tokens == b.start_tokens && a.start_fraction == b.start_fraction &&
           a.start_of_decay == b.start_of_decay && a.start_rollback == b.start_rollback &&
           std::ranges::equal(a.rules, b.rules, same_rule);
  });
  settle_and_validate(recipe);
  return recipe;
}

Recipe read_run_recipe(const std::string& path_or_name, const std::vector<std::string>& overrides,
                       const InitialModel& model_of) {
  Recipe recipe;
  read_keys(recipe, path_or_name, overrides);
  if (!recipe.train.init.empty()) take_model(recipe, model_of(recipe.train.init));
  settle_and_validate(recipe);
  return recipe;
}

void read_fragment(Recipe& recipe, const std::string& path_or_name, const std::filesystem::path& folder,
                   const std::string& asked_by) {
  read_document(recipe, find_document(path_or_name, folder, asked_by));
}

std::string run_folder_of(const std::string& path_or_name, const std::vector<std::string>& overrides) {
  Recipe recipe;
  if (!path_or_name.empty()) read_document(recipe, find_document(path_or_name, {}, ""));
  for (const auto& text : overrides) apply_override(recipe, text);
  return recipe.train.out + "/" + recipe.name;
}

Recipe recipe_from_toml(const std::string& text, const std::string& where) {
  Recipe recipe;
  read_document(recipe, {where, where, where, {}, [&] { return text; }});
  settle_and_validate(recipe);
  return recipe;
}

}  // namespace mxtape
