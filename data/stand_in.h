#pragma once
#include <cstdint>
#include <filesystem>
#include <string_view>

namespace mxtape {

/// Throws Error(data) for what is often found under the name of a model file: nothing, a Git LFS pointer, a
/// page of HTML.
void require_no_stand_in(const std::filesystem::path&, std::string_view first_bytes, std::uint64_t size);

}  // namespace mxtape
