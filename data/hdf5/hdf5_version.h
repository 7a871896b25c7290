#pragma once
#include <string>

namespace mxtape {

/// "1.10.8": of the library that the program runs with.
std::string hdf5_version();

}  // namespace mxtape
