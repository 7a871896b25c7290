#include "train/devices/strand_sum.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

namespace mxtape {
namespace {

/// The sum as the page of devices defines it, written down: groups of eight in order, then the groups.
std::string definition(std::int64_t strands) {
  std::string total;
  for (std::int64_t first = 0; first < strands; first += 8) {
    std::string group = fmt::format("{}", first);
    for (std::int64_t k = first + 1; k < std::min(first + 8, strands); ++k)
      group = fmt::format("({}+{})", group, k);
    total = first == 0 ? group : fmt::format("({}+{})", total, group);
  }
  return total;
}

TEST(StrandSum, IsTheDefinitionForUpTo40Strands) {
  for (std::int64_t strands = 1; strands <= 40; ++strands) {
    std::string storage[2];
    std::string *const sum = &storage[0], *const total = &storage[1];
    for (std::int64_t k = 0; k < strands; ++k) {
      const std::string strand = fmt::format("{}", k);
      take_strand(
          k, strands, sum, total, &strand, [](std::string* to, const std::string* from) { *to = *from; },
          [](std::string* to, const std::string* from) { *to = fmt::format("({}+{})", *to, *from); });
    }
    EXPECT_EQ(*(strands <= strands_of_a_group ? sum : total), definition(strands)) << strands;
  }
  EXPECT_EQ(definition(10), "((((((((0+1)+2)+3)+4)+5)+6)+7)+(8+9))");
}

}  // namespace
}  // namespace mxtape
