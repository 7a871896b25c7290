#pragma once
#include "kernels/rounded.h"

namespace mxtape::cpu {

/// What code 1 is worth before the scale.
inline float unit_of(const Quantizer& q) { return power_of_two(integer_grid(q.element)->unit_exponent); }

/// Rounds x, f32, into the bytes of a stored matrix. Returns the element of which a NaN is lost, or -1.
std::int64_t pack(const Rounded& y, const float* x);

/// The other way, without the multiplier: into f32 or bf16 values, or into integer codes and their scales,
/// the bytes that call::Quantize writes there, but for the scale of a block of zeros, which may be any.
void unpack(const Rounded& y, const Rounded& x);

/// Whether pack() has vector loops for it: elements of 8 bits or less whose blocks have power-of-two scales
/// and lie in one line.
bool packs_tiles(const Quantizer&);

/// Between values or codes and their narrow layout.
void narrow(const Rounded& y, const Rounded& x);
void widen(const Rounded& y, const Rounded& x);

}  // namespace mxtape::cpu
