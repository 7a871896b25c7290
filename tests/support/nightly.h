#pragma once
#include <cstdlib>
#include <string_view>

namespace mxtape::test {

/// Whether the long form of a test is wanted: `ctest -C nightly -L nightly`.
inline bool is_nightly() {
  const char* value = std::getenv("MXTAPE_NIGHTLY");
  return value && std::string_view(value) == "1";
}

}  // namespace mxtape::test
