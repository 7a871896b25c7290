// What the program says of the instruction set that it is held to.
#include "tests/program/program_fixture.h"

namespace mxtape::test {
namespace {

class InstructionSet : public ProgramTest {
 protected:
  void TearDown() override { ::unsetenv("MXTAPE_MAX_CPU"); }
};

TEST_F(InstructionSet, TheOneThatItIsHeldToIsInTheDeviceLine) {
  ::setenv("MXTAPE_MAX_CPU", "baseline", 1);
  ASSERT_EQ(run({"train", "tiny.toml"}), 0) << output_;
  EXPECT_TRUE(says("bf16 GEMMs baseline")) << output_;
  EXPECT_TRUE(says("loops baseline")) << output_;
}

TEST_F(InstructionSet, OneThatThereIsNotIsRefusedWithTheNamesOfThoseThatThereAre) {
  ::setenv("MXTAPE_MAX_CPU", "AVX2", 1);
  ASSERT_EQ(run({"train", "tiny.toml"}), 2) << output_;
  EXPECT_TRUE(says("MXTAPE_MAX_CPU is 'AVX2'; want one of baseline, avx2, avx512, avx512_bf16, amx_bf16"))
      << output_;
}

}  // namespace
}  // namespace mxtape::test
