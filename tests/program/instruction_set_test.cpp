// What the program says of the device's instruction set, in the table and in the device's line alike.
#include "tests/program/program_fixture.h"

namespace mxtape::test {
namespace {

class InstructionSet : public ProgramTest {
 protected:
  void TearDown() override { ::unsetenv("ONEDNN_MAX_CPU_ISA"); }
};

TEST_F(InstructionSet, WhereOneDnnIsKeptToASetWithoutBf16TableAndDeviceLineSayThatOperandsAreWidened) {
  ::setenv("ONEDNN_MAX_CPU_ISA", "AVX2", 1);
  for (const char* command : {"train", "check"}) {
    ASSERT_EQ(run({command, "tiny.toml"}), command == std::string("check") ? 2 : 0) << output_;
    EXPECT_FALSE(says("bf16 GEMM, exact products")) << output_;
    EXPECT_TRUE(says("f32 GEMM, both sides widened from bf16, exact products")) << output_;
    EXPECT_TRUE(says("(no bf16: operands are widened to f32)")) << output_;
    EXPECT_FALSE(says("in bf16 GEMMs")) << output_;
  }
}

TEST_F(InstructionSet, WithNothingSetTableAndDeviceLineAgree) {
  ::unsetenv("ONEDNN_MAX_CPU_ISA");
  ASSERT_EQ(run({"train", "tiny.toml"}), 0) << output_;
  EXPECT_NE(bool(says("bf16 GEMM, exact products")), bool(says("(no bf16: operands are widened to f32)")))
      << output_;
}

}  // namespace
}  // namespace mxtape::test
