#include "program/init/init_recipe.h"

#include <map>
#include <memory>
#include <optional>

#include "program/init/initial_weights.h"
#include "program/resume.h"
#include "recipes/text/run_folder_of.h"

namespace mxtape {
namespace {

namespace fs = std::filesystem;

/// The run's own checkpoint, if it goes on from one.
std::optional<fs::path> own_checkpoint(const std::string& recipe, const std::vector<std::string>& overrides,
                                       const std::string& resume) {
  if (resume.empty() || resume == "no") return {};
  if (resume != "auto") return resume;
  const fs::path folder = run_folder_of(recipe, overrides);
  if (list_checkpoints(folder).empty()) return {};
  return find_checkpoint(folder);
}

}  // namespace

Recipe read_recipe_of_run(const std::string& recipe, const std::vector<std::string>& overrides,
                          const std::string& resume, const std::optional<ModelConfig>& known) {
  return read_run_recipe(recipe, overrides, [&](const std::string& init) {
    if (known) return *known;
    const auto own = own_checkpoint(recipe, overrides, resume);
    return own ? CheckpointFile(*own).header().recipe.model : InitialWeights(init).model();
  });
}

InitialModel initial_models() {
  return [known = std::make_shared<std::map<std::string, ModelConfig>>()](const std::string& init) {
    const auto found = known->find(init);
    return found != known->end() ? found->second
                                 : known->emplace(init, InitialWeights(init).model()).first->second;
  };
}

}  // namespace mxtape
