// What the program says of the instruction set that it is held to.
#include "kernels/cpu/loops/tier.h"
#include "program/records/run_log.h"
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

TEST_F(InstructionSet, RunsOfTheSameOrderOfAdditionsHaveOneArithmetic) {
  const auto arithmetic = [&](const char* set) {
    ::setenv("MXTAPE_MAX_CPU", set, 1);
    EXPECT_EQ(run({"train", "tiny.toml", std::string("--name=") + set}), 0) << output_;
    return arithmetic_of(read_whole_text(folder_ / "runs" / set / "device.txt"));
  };
  if (!cpu::has_tier(cpu::Tier::avx2)) GTEST_SKIP() << "this machine has one set";
  const std::string avx2 = arithmetic("avx2");
  EXPECT_EQ(arithmetic("avx512_bf16"), avx2);
  EXPECT_NE(arithmetic("baseline"), avx2);
  const auto ends = [](const std::string& description, std::string_view order) {
    return arithmetic_of(description).ends_with(order);
  };
  EXPECT_TRUE(ends("cpu, bf16 GEMMs amx_bf16, loops avx512, 2 threads", ", cpu, AMX"));
  EXPECT_TRUE(
      ends("cpu, bf16 GEMMs avx2, integer GEMMs avx2, loops avx2, 1 thread\nother", ", cpu, integer GEMMs"));
}

}  // namespace
}  // namespace mxtape::test
