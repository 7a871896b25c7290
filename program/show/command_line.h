#pragma once

namespace mxtape {

/// Does what the words say. Throws Error; for what cannot be read, Error(usage).
void run_command_line(int argc, char** argv);

}  // namespace mxtape
