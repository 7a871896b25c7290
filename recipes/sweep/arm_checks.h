#pragma once
#include <span>
#include <string>
#include <vector>

#include "recipes/sweep/sweep_file.h"

namespace mxtape {

/// An arm's recipe as it would be without one key of the file.
struct Omission {
  std::string key, where;  ///< file:line:column
  Recipe recipe;
  bool judged;  ///< false: the recipe does not stand without the key, or the key says what held before
};
struct BuiltArm {
  SweepArm arm;
  std::vector<Omission> own, shared;  ///< of the arm's own keys and rules; of [set], in its order
};

/// Throws Error(usage), naming file and line: a key without effect, an arm that cannot be paired with the
/// baseline, two arms that train alike.
void check_arms(std::span<const BuiltArm>, const std::string& baseline);

/// Whether two recipes train to the same bits: they differ in nothing but keys that change no number, that
/// nothing reads, or whose operands other rules decide.
bool trains_alike(const Recipe&, const Recipe&);

}  // namespace mxtape
