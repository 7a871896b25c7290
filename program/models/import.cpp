#include "program/models/import.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "core/files/atomic_file.h"
#include "core/files/output_file.h"
#include "core/files/status.h"
#include "data/tokenizers/tokenizer_files.h"
#include "kernels/observers/dry_backend.h"
#include "program/records/model_files.h"
#include "train/checkpoint.h"

namespace mxtape {
namespace {

namespace fs = std::filesystem;

/// The names and shapes of what was read are those of the model that the recipe describes.
void require_whole(const ImportedModel& imported, const Recipe& recipe) {
  DryBackend nowhere;
  const auto model = make_model(nowhere, recipe.model, precision_plan(recipe, 0), recipe.seed);
  const auto parameters = model->parameters();
  for (const Parameter* parameter : parameters) {
    const auto found = std::ranges::find(imported.tensors, parameter->name, &TensorInParts::name);
    require(found != imported.tensors.end() && found->shape == parameter->value.shape(),
            "import: the model's '{}' {} is not in the table of names", parameter->name,
            parameter->value.shape().text());
  }
  require(parameters.size() == imported.tensors.size(),
          "import: {} tensors in the table of names, {} in the model", imported.tensors.size(),
          parameters.size());
}

Recipe recipe_of(const ImportedModel& imported, const fs::path& out) {
  Recipe recipe;
  recipe.name = (out.has_filename() ? out : out.parent_path()).filename().string();
  recipe.description = fmt::format("{} imported from elsewhere", imported.facts.architecture);
  recipe.model = imported.config();
  for (const auto& change : differences(Recipe{}, recipe))
    recipe.origins[change.substr(0, change.find_first_of(": "))] = "import";
  return recipe;
}

}  // namespace

Tokenizer tokenizer_of_source(const fs::path& source, const ImportedModel& model) {
  const std::int64_t rows = model.facts.vocabulary;
  constexpr std::string_view readable[]{"tokenizer.json", "tokenizer.model", "merges.txt", "vocab.bpe"};
  const auto files = is_folder(source) ? model_files_in(source) : std::vector<std::string>();
  const bool beside = std::ranges::find_first_of(files, readable) != files.end();
  Tokenizer tokenizer = beside ? read_tokenizer(source) : model.tokenizer.value_or(Tokenizer::of_ids(rows));
  require(tokenizer.size() <= rows, ExitCode::data,
          "{}: its tokenizer has {} tokens, the model's table {} rows; want at most as many", source.string(),
          tokenizer.size(), rows);
  return tokenizer;
}

std::string with_import(const std::string& lineage, const ImportedModel& model, const fs::path& source) {
  auto all = lineage.empty() ? nlohmann::ordered_json::array() : nlohmann::ordered_json::parse(lineage);
  nlohmann::ordered_json event{{"step", 0},
                               {"event", "import"},
                               {"source", source.string()},
                               {"architecture", model.facts.architecture},
                               {"positions", model.facts.positions}};
  if (model.facts.bos) event["bos"] = *model.facts.bos;
  if (!model.facts.eos.empty()) event["eos"] = model.facts.eos;
  if (model.facts.pad) event["pad"] = *model.facts.pad;
  event["changed"] = nlohmann::ordered_json::array();
  all.push_back(event);
  return all.dump();
}

void recall_import(const std::string& lineage, ModelFacts& facts) {
  if (lineage.empty()) return;
  for (const auto& event : nlohmann::json::parse(lineage)) {
    if (event.value("event", "") != "import") continue;
    // Learned positions end with their table.
    if (facts.is_llama_style())
      facts.positions = std::max(facts.positions, event.value("positions", facts.positions));
    if (facts.architecture == "llama" && event.value("architecture", "") == "mistral")
      facts.architecture = "mistral";
    if (event.contains("bos")) facts.bos = event["bos"].get<std::int64_t>();
    if (event.contains("eos")) facts.eos = event["eos"].get<std::vector<std::int64_t>>();
    if (event.contains("pad")) facts.pad = event["pad"].get<std::int64_t>();
  }
}

ImportReport import_model(const ImportOptions& options) {
  ImportReport report{open_foreign_model(options.source, options.context), {}, 0, {}, {}};
  const ImportedModel& model = report.model;
  report.tokenizer = tokenizer_of_source(options.source, model);
  const Recipe recipe = recipe_of(model, options.out);
  require_whole(model, recipe);
  UnfinishedFolder out(options.out);
  if (is_folder(options.source)) {
    copy_model_files(options.source, out.path());
    report.tokenizer_files = model_files_in(options.source);
    std::erase(report.tokenizer_files, generation_config_name);
  }
  const CheckpointHeader header{.step = 0,
                                .recipe = recipe,
                                .tokenizer = report.tokenizer,
                                .data_hash = "",
                                .lineage = with_import("", model, fs::absolute(options.source))};
  const char* const file = "checkpoints/step_00000000.h5";
  write_weights(out.path() / file, header, model.tensors, options.progress);
  report.bytes = fs::file_size(out.path() / file);
  write_atomically(out.path() / "recipe.toml", to_toml(recipe));
  out.finish();
  report.checkpoint = options.out / file;
  return report;
}

}  // namespace mxtape
