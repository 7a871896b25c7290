#pragma once
#include <string_view>

namespace mxtape {

/// unicode.txt, which says how it is read; the build puts it into the library.
extern const std::string_view unicode_tables;

}  // namespace mxtape
