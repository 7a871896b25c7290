#pragma once
#include <filesystem>

namespace mxtape {

/// What a path leads to; not_found for nothing, and for names that no file can have. Throws Error(resource)
/// if that cannot be seen: what cannot be looked at is not absent.
std::filesystem::file_status status_of(const std::filesystem::path&);
/// The same of a link itself.
std::filesystem::file_status link_status_of(const std::filesystem::path&);

bool is_there(const std::filesystem::path&);
bool is_folder(const std::filesystem::path&);

}  // namespace mxtape
