#pragma once
#include <filesystem>

#include "core/error.h"

namespace mxtape {

/// What work() returns. An error that it throws gets the place in front.
template <class Work>
auto at_place(const std::string& place, const Work& work) {
  try {
    return work();
  } catch (const Error& e) {
    fail(e.code(), "{}: {}", place, e.what());
  }
}

/// The same of a file that is read, if its name is not in front already.
template <class Read>
auto in_file(const std::filesystem::path& file, const Read& read) {
  try {
    return read();
  } catch (const Error& e) {
    for (const char* const after : {":", " ("})
      if (std::string_view(e.what()).starts_with(file.string() + after)) throw;
    fail(e.code(), "{}: {}", file.string(), e.what());
  }
}

}  // namespace mxtape
