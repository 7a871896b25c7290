#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "recipes/recipe.h"
#include "recipes/text/reader.h"

namespace mxtape {

/// One arm of a sweep: a recipe in which everything is resolved but the seed.
struct SweepArm {
  std::string name;
  std::string where;  ///< file:line, for messages
  Recipe recipe;
  std::optional<std::size_t> trunk{};  ///< the arm from whose run of the same seed its runs branch
  std::size_t point = 0, arm = 0;      ///< whose runs these are: indices of the file's
  bool is_trunk = false;               ///< of the point's size, up to its decay
};

/// A question as a file asks it: which recipes are compared with which baseline, on which seeds. Reference of
/// the keys: docs/sweeps.md.
struct Sweep {
  std::string file, baseline;
  std::vector<std::uint64_t> seeds;
  std::vector<SweepArm> arms;

  std::size_t baseline_index() const;
  const SweepArm& baseline_arm() const { return arms[baseline_index()]; }
};

}  // namespace mxtape
