#pragma once
#include <gtest/gtest.h>

#include <random>
#include <string>

namespace mxtape::test {

/// Random numbers of one case of a property; its seed repeats the case.
using Random = std::mt19937_64;

inline std::int64_t integer_in(Random& random, std::int64_t lowest, std::int64_t highest) {
  return lowest + std::int64_t(random() % std::uint64_t(highest - lowest + 1));
}

/// Draws `cases` inputs with make(random) and checks holds(input). Stops at the first that does not hold and
/// says how to repeat it: "FAILS Q(8 x) == 8 Q(x) (seed 318)".
template <class Make, class Holds>
void for_all(const std::string& property, int cases, const Make& make, const Holds& holds) {
  for (int seed = 0; seed < cases; ++seed) {
    Random random(static_cast<std::uint64_t>(seed));
    const auto input = make(random);
    const bool held = holds(input);
    if (!held) {
      ADD_FAILURE() << "FAILS " << property << " (seed " << seed << ")";
      return;
    }
  }
}

}  // namespace mxtape::test
