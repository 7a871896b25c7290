#include <gtest/gtest.h>

#include <string>

#include "core/error.h"
#include "dist/nccl_calls.h"

namespace mxtape {
namespace {

std::string refused(const char* file) {
  try {
    load_nccl(file);
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ExitCode::resource);
    return e.what();
  }
  return "no error";
}
bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST(NcclLibrary, ThatIsMissingTooOldOrAnotherLibraryIsAnErrorThatSaysWhatToDo) {
  for (const auto& [file, text] :
       {std::pair("libnccl_of_nobody.so.2", "libnccl_of_nobody.so.2 cannot be loaded: "),
        std::pair(MXTAPE_OLD_NCCL, "is NCCL 2.17.9; want 2.18.0 or newer: "),
        std::pair("libm.so.6", "libm.so.6: has no function ncclGetVersion; ")}) {
    const std::string error = refused(file);
    EXPECT_TRUE(contains(error, text)) << error;
    EXPECT_TRUE(contains(error, "install NCCL 2.18 or newer")) << error;
  }
}

// NCCL reads the structure by its size; offsets are those of 64-bit machines.
TEST(NcclLibrary, TheConfigHasTheLayoutOf218) {
  EXPECT_EQ(sizeof(NcclConfig), 48u);
  EXPECT_EQ(offsetof(NcclConfig, magic), 8u);
  EXPECT_EQ(offsetof(NcclConfig, blocking), 16u);
  EXPECT_EQ(offsetof(NcclConfig, net_name), 32u);
  EXPECT_EQ(offsetof(NcclConfig, split_share), 40u);
  EXPECT_EQ(sizeof(NcclId), 128u);
}

}  // namespace
}  // namespace mxtape
