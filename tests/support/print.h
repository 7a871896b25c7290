#pragma once
#include <ostream>

#include "formats/quantizer.h"
#include "formats/rotation.h"
#include "kernels/backend.h"
#include "kernels/calls_rows.h"

namespace mxtape {

/// GoogleTest prints a parameter so: as its text form, not as forty bytes.
inline void PrintTo(const Quantizer& q, std::ostream* out) { *out << to_text(q); }
inline void PrintTo(SignsPer signs, std::ostream* out) { *out << to_text(Rotation{16, signs}); }
inline void PrintTo(const AttentionShape& s, std::ostream* out) {
  *out << "batch " << s.batch << ", time " << s.time << ", " << s.heads << " heads on " << s.kv_heads << ", "
       << s.width << " wide" << (s.mask == AttentionMask::causal ? ", causal" : "") << ", " << s.keys
       << " of " << s.room << " keys" << (s.own_keys ? " of their own" : "") << ", from " << s.first_position
       << ", dropout " << s.dropout;
}
inline void PrintTo(Gelu form, std::ostream* out) { *out << (form == Gelu::tanh ? "tanh" : "erf"); }

}  // namespace mxtape
