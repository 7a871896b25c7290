#pragma once
#include <filesystem>

#include "core/error.h"

namespace mxtape {

/// What read() returns. Of an error that it throws the file's name stands in front.
template <class Read>
auto in_file(const std::filesystem::path& file, const Read& read) {
  try {
    return read();
  } catch (const Error& e) {
    fail(e.code(), "{}: {}", file.string(), e.what());
  }
}

}  // namespace mxtape
