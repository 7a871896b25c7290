#pragma once
#include <filesystem>
#include <functional>
#include <optional>
#include <string>

#include "interop/import.h"

namespace mxtape {

struct ImportOptions {
  std::filesystem::path source;  ///< as open_foreign_model() takes it
  std::filesystem::path out;     ///< the run's folder that is made
  std::optional<std::int64_t> context{};
  std::function<void(std::int64_t done, std::int64_t all)> progress{};  ///< in numbers
};

/// What came of an import, for people and programs.
struct ImportReport {
  ImportedModel model;
  std::filesystem::path checkpoint;
  std::uint64_t bytes = 0;  ///< of the checkpoint
  Tokenizer tokenizer;
  std::vector<std::string> tokenizer_files;  ///< copied as they came; none: the model takes ids
};

/// Writes what a run's folder looks like after no step: checkpoints/step_00000000.h5 without moments,
/// recipe.toml, the tokenizer's files as they came. The folder appears whole or not at all. In memory is the
/// file that is written, and one tensor. Throws Error(data) for what does not fit, Error(usage) if the folder
/// is there, Error(resource).
ImportReport import_model(const ImportOptions&);

/// The event of an import in a checkpoint's lineage, {"event":"import",...}: its source, and what of the
/// model's config is no knob (positions, bos, eos, pad). Export writes these again.
std::string with_import(const std::string& lineage, const ImportedModel&,
                        const std::filesystem::path& source);
/// The last one in a lineage; fills in positions, bos, eos, pad. Without one nothing changes.
void recall_import(const std::string& lineage, ModelFacts&);

/// The tokenizer beside a model from elsewhere, or in its file; ids of its vocabulary if there is none.
/// Throws Error(data) for one with more tokens than the model's table has rows.
Tokenizer tokenizer_of_source(const std::filesystem::path& folder_or_file, const ImportedModel&);

}  // namespace mxtape
