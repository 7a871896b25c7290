#pragma once
#include <string_view>

namespace mxtape {

/// Does what the words say. Throws Error; for what cannot be read, Error(usage).
void run_command_line(int argc, char** argv);

/// The commit of the source tree when the program was built, "-dirty" if files differed from it; "unknown"
/// without git. Defined in a file that cmake/commit.cmake writes: only the program has it, not the library.
std::string_view source_commit();

}  // namespace mxtape
