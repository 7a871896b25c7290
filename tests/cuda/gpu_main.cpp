#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "core/error.h"
#include "tests/support/device.h"

namespace mxtape::test {

const TestedDevice tested_device = TestedDevice::cuda;
std::unique_ptr<Backend> make_device(const BackendOptions& options) { return make_backend("cuda", options); }

}  // namespace mxtape::test

/// The tests of every device on a GPU. Where there is none the exit code is 77, for ctest: skipped; unless
/// MXTAPE_REQUIRE_GPU=1 says that there is one.
int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  if (GTEST_FLAG_GET(list_tests)) return RUN_ALL_TESTS();
  try {
    std::printf("%s\n", mxtape::test::device().description().c_str());
  } catch (const mxtape::Error& e) {
    const char* const required = std::getenv("MXTAPE_REQUIRE_GPU");
    if (required && std::string_view(required) == "1") {
      std::fprintf(stderr, "gpu_tests: MXTAPE_REQUIRE_GPU=1, but %s\n", e.what());
      return int(e.code());
    }
    std::printf("gpu_tests: skipped: %s\n", e.what());
    return 77;
  }
  return RUN_ALL_TESTS();
}
