#pragma once
#include <string>

namespace mxtape {

/// Processors that this process may run on: those that a launcher, a container or taskset has left it.
int allowed_processors();
/// Which: "0,1,8". Two processes with the same text share them.
std::string allowed_processors_text();

}  // namespace mxtape
