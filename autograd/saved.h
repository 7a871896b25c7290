#pragma once
#include <cstdint>

namespace mxtape {

/// Ops whose results are not kept for backward but computed again there: time for memory. Bits of a set.
/// `automatic` is one of the others, which kept_for() in recipes/recipe.h finds; for Saved too.
enum class Recompute : std::uint8_t { none = 0, norm = 1, gelu = 2, norm_and_gelu = 3, automatic = 4 };

/// The form in which the tape keeps what backward reads only after a rounding. Results do not depend on it.
enum class Saved : std::uint8_t {
  ready,     ///< as backward's kernels take it
  packed,    ///< as wide as the rounding leaves it, where a copy can be packed; unpacked just before its use
  automatic  ///< a tape takes it for `ready`
};

/// What stays between an op's forward and its backward, and between a step and the next.
struct Kept {
  Saved saved = Saved::ready;
  Recompute recompute = Recompute::none;
  bool weights = true;  ///< fprop's copies of them, for later passes; else each is made where it is used
};

}  // namespace mxtape
