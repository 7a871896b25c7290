#pragma once
#include <optional>
#include <string>

#include "data/hdf5/hdf5.h"

namespace mxtape {

/// A text of any length as attributes of the file: `name` where it fits into one, else `name.0`, `name.1`
/// ..., each of 48 KiB or less. (HDF5 gives an attribute 64 KiB.)
void write_long_text(Hdf5Writer&, const std::string& name, const std::string& text);
/// Throws Error(data) if there is neither.
std::string read_long_text(const Hdf5Reader&, const std::string& name);
/// None if there is neither.
std::optional<std::string> find_long_text(const Hdf5Reader&, const std::string& name);

}  // namespace mxtape
