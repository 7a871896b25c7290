#pragma once
#include <cstdint>

namespace mxtape::cpu {

/// A float format as a code of `bits` bits, the sign in the highest if it has one.
struct FloatNumbers {
  int bits, mantissa_bits, min_exponent;
  float largest;
  std::uint32_t carry = 0;  ///< a block's exponent, by ExponentRule
  int subtract = 0;
};

}  // namespace mxtape::cpu
