#pragma once
#include <ostream>

#include "formats/quantizer.h"

namespace mxtape {

/// GoogleTest prints a parameter so: as its text form, not as forty bytes.
inline void PrintTo(const Quantizer& q, std::ostream* out) { *out << to_text(q); }

}  // namespace mxtape
