#pragma once
#include <cstddef>
#include <filesystem>
#include <initializer_list>
#include <span>

namespace mxtape {

/// write_atomically() (core/files/atomic_file.h) of parts that stand one behind the other.
void write_parts_atomically(const std::filesystem::path&,
                            std::initializer_list<std::span<const std::byte>> parts);

}  // namespace mxtape
