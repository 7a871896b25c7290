#pragma once
#include <string>
#include <string_view>

namespace mxtape {

/// A message as people read it: of a line of more than 2,000 bytes, which repeats what somebody wrote, the
/// middle is left out.
std::string with_short_lines(std::string_view message);

}  // namespace mxtape
