#pragma once
#include <string_view>

namespace mxtape {

/// The commit of the source tree when the program was built, "-dirty" if files differed from it; "unknown"
/// without git. Defined in a file that cmake/commit.cmake writes: only the program has it, not the library.
std::string_view source_commit();

enum class VersionForm { text, json };
/// What runs: version and commit of mxtape, compiler, and the libraries as they are found here.
void print_version(std::string_view commit, VersionForm);

}  // namespace mxtape
