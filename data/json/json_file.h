#pragma once
#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <string_view>

namespace mxtape {

/// Parses JSON text whose origin is unknown. Throws Error(data) for what is no JSON or UTF-8, equal keys in
/// one object (of which the library would keep the last) and nesting deeper than `deepest`.
nlohmann::json parse_json_strictly(std::string_view text, int deepest = 16);

/// A JSON file of a model's folder, as config.json. Throws Error(data) with the path: missing, a stand-in
/// (data/stand_in.h), above 100 MB, or as parse_json_strictly().
nlohmann::json read_json_file(const std::filesystem::path&);

}  // namespace mxtape
