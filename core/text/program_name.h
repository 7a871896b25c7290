#pragma once
#include <string>

namespace mxtape {

/// A word as a POSIX shell reads it back: in single quotes if it holds anything that might be special there.
std::string shell_quoted(const std::string& word);

/// The word by which the user started the program, quoted for a shell: messages that recommend a command
/// begin it with this word, so that it works where the user is. "mxtape" until main() has said otherwise.
const std::string& program_name();
/// Only main() calls it, before anything else runs. `word` is argv[0]; an empty one changes nothing.
void set_program_name(const std::string& word);

}  // namespace mxtape
