#pragma once
#include "kernels/calls.h"

namespace mxtape::cpu {

/// call::Unpack into integer codes and their scales: the bytes that call::Quantize writes there, but for the
/// scale of a block of zeros, which may be any.
void unpack_codes(const call::Unpack&);

}  // namespace mxtape::cpu
