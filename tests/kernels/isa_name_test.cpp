#include "kernels/cpu/isa_name.h"

#include <gtest/gtest.h>

#include "kernels/choose/make_backend.h"
#include "kernels/cpu/gemm.h"

namespace mxtape::cpu {
namespace {

TEST(IsaName, ANumberIsNamedForItsMachineAndItsVersionOfOneDnn) {
  EXPECT_EQ(isa_name(Machine::x86_64, 2, 0xe7), "avx512_core_bf16");
  EXPECT_EQ(isa_name(Machine::x86_64, 3, 0xe7), "avx512_core_bf16");
  EXPECT_EQ(isa_name(Machine::x86_64, 2, 0x3e7), "avx512_core_amx");
  EXPECT_EQ(isa_name(Machine::x86_64, 3, 0xfef), "avx512_core_amx");
  EXPECT_EQ(isa_name(Machine::aarch64, 2, 0x1), "asimd");
  EXPECT_EQ(isa_name(Machine::aarch64, 3, 0x7), "sve_256");
  EXPECT_EQ(isa_name(Machine::aarch64, 2, 0x1f), "sve_512");
  EXPECT_EQ(isa_name(Machine::aarch64, 3, 0x27), "sve_512");
  EXPECT_EQ(isa_name(Machine::x86_64, 3, 0x1f), "avx2_vnni_2");
}

TEST(IsaName, AnUnknownNumberIsSaidToBeUnknown) {
  EXPECT_EQ(isa_name(Machine::x86_64, 2, 0x1f), "instruction set unknown to mxtape (0x1f)");
  EXPECT_EQ(isa_name(Machine::aarch64, 3, 0x1f), "instruction set unknown to mxtape (0x1f)");
  EXPECT_EQ(isa_name(Machine::aarch64, 4, 0xabc), "instruction set unknown to mxtape (0xabc)");
}

TEST(IsaName, TheDeviceLineOfThisMachineNamesItsInstructionSet) {
  EXPECT_EQ(describe_gemm_library().find("0x"), std::string::npos) << describe_gemm_library();
}

TEST(IsaName, TheDeviceLineSaysThatOperandsAreWidenedWhereProductsAre) {
  const bool said = describe_gemm_library().find("operands are widened to f32") != std::string::npos;
  EXPECT_EQ(said, bf16_products("cpu") == Bf16Products::widened) << describe_gemm_library();
  EXPECT_EQ(bf16_products("cuda"), Bf16Products::native);
}

}  // namespace
}  // namespace mxtape::cpu
