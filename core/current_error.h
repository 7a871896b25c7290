#pragma once
#include "core/error.h"

namespace mxtape {

/// The exception that is being handled, as what the program ends with: an Error stays; the file system,
/// threads and memory are ExitCode::resource; anything else is internal. To be called inside a catch.
Error current_error();

}  // namespace mxtape
