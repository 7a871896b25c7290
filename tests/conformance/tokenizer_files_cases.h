#pragma once
#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <vector>

#include "tests/conformance/interop.h"

namespace mxtape::conformance {

/// Throws Error(data) with the path.
nlohmann::json read_json(const std::filesystem::path&);

/// cases.json: a tokenizer.json after each patch must be refused, or give the ids that are expected.
void add_patched_files(std::vector<InteropCase>&, const std::filesystem::path& folder,
                       const nlohmann::json& cases, const nlohmann::json& texts);

/// trainer.json: the merges of each small corpus.
void add_trainer(std::vector<InteropCase>&, const nlohmann::json& trainer);

}  // namespace mxtape::conformance
