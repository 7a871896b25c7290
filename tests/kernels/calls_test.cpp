#include "kernels/calls_rows.h"

#include <gtest/gtest.h>

#include "kernels/cpu/cpu_backend.h"
#include "tests/support/device.h"

namespace mxtape {
namespace {

using test::device;

std::string message(const auto& call, Backend& backend = device()) {
  try {
    backend.run(call);
    return "no error";
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ExitCode::internal);
    return e.what();
  }
}

TEST(Calls, RefuseATypeThatTheRoleDoesNotTake) {
  const Tensor f32 = device().empty({2, 2}), tokens = device().empty({2, 2}, DType::i32);
  EXPECT_EQ(message(call::Add{f32, f32, tokens}), "add: b is i32 [2, 2]; its role takes no i32");
  EXPECT_EQ(message(call::Embedding{f32, f32, {}, f32}),
            "embedding: tokens is f32 [2, 2]; its role takes no f32");
  const Tensor bf16 = device().empty({2, 2}, DType::bf16);
  EXPECT_EQ(message(call::ClipFactor{device().empty({1}), device().empty({1}), {&bf16, 1}, 1}),
            "clip_factor: gradient is bf16 [2, 2]; its role takes no bf16");
}

TEST(Calls, WantActivationsOfOneType) {
  const Tensor f32 = device().empty({2, 2}), bf16 = device().empty({2, 2}, DType::bf16);
  EXPECT_EQ(message(call::Add{f32, f32, bf16}), "add: b is bf16, another activation f32; want one type");
  EXPECT_EQ(message(call::Add{bf16, bf16, bf16}), "no error");
}

TEST(Calls, ReachNoCpuLoopWithBf16Activations) {
  CpuBackend cpu;
  const Tensor x = cpu.empty({2, 2}, DType::bf16);
  EXPECT_EQ(message(call::Add{x, x, x}, cpu), "cpu: add: y is bf16; want f32");
}

}  // namespace
}  // namespace mxtape
