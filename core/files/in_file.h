#pragma once
#include <filesystem>

#include "core/error.h"

namespace mxtape {

/// What read() returns. An error that it throws gets the file's name in front, if it has not got it.
template <class Read>
auto in_file(const std::filesystem::path& file, const Read& read) {
  try {
    return read();
  } catch (const Error& e) {
    if (std::string_view(e.what()).starts_with(file.string())) throw;
    fail(e.code(), "{}: {}", file.string(), e.what());
  }
}

}  // namespace mxtape
