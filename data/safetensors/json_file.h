#pragma once
#include <filesystem>
#include <nlohmann/json_fwd.hpp>

namespace mxtape {

/// A small JSON file of a model's folder, as config.json. Throws Error(data) with the path: missing, a
/// stand-in (safetensors_file.h), above 100 MB, no JSON, equal keys in one object, nesting deeper than 16.
nlohmann::json read_json_file(const std::filesystem::path&);

}  // namespace mxtape
