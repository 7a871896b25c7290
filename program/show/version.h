#pragma once
#include <string_view>

#include "program/show/report.h"

namespace mxtape {

/// The commit of the source tree when the program was built, "-dirty" if files differed from it; "unknown"
/// without git. Defined in a file that cmake/commit.cmake writes: only the program has it, not the library.
std::string_view source_commit();

/// What runs: version and commit of mxtape, compiler, and the libraries as they are found here.
Report version(std::string_view commit);

}  // namespace mxtape
