#include "program/plot/data_of_runs.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <optional>

#include "core/files/atomic_file.h"
#include "recipes/recipe.h"

namespace mxtape {
namespace {

namespace fs = std::filesystem;

struct DataOfRun {
  fs::path file;
  std::int64_t vocabulary;
  bool operator==(const DataOfRun&) const = default;
};

std::optional<DataOfRun> data_of(const fs::path& run) {
  const fs::path file = (fs::is_directory(run) ? run : run.parent_path()) / "recipe.toml";
  if (!fs::exists(file)) return {};
  const Recipe recipe = recipe_from_toml(read_whole_text(file), file.string());
  return DataOfRun{fs::weakly_canonical(recipe.data.file), recipe.model.vocabulary};
}

}  // namespace

std::vector<std::string> data_beside_names(const std::vector<std::string>& runs) {
  std::vector<std::string> texts;
  std::optional<DataOfRun> first;
  bool differs = false;
  for (const auto& run : runs) {
    const auto data = data_of(run);
    if (!first) first = data;
    differs = differs || (data && *data != *first);
    texts.push_back(data ? fmt::format(" ({}, {} tokens)", data->file.filename().string(), data->vocabulary)
                         : "");
  }
  if (!differs) texts.assign(runs.size(), "");
  return texts;
}

std::string remark_on_data(const std::vector<std::string>& texts) {
  const bool differ = std::any_of(texts.begin(), texts.end(), [](auto& text) { return !text.empty(); });
  return differ ? "losses of other texts or other tokens do not compare\n" : "";
}

}  // namespace mxtape
