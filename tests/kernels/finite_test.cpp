#include "kernels/observers/finite.h"

#include <gtest/gtest.h>

#include <limits>

#include "autograd/ops.h"
#include "kernels/calls_rows.h"
#include "tests/support/device.h"
#include "tests/support/rounded.h"
#include "tests/support/tensors.h"

namespace mxtape {
namespace {

using namespace test;

std::string found_by(const std::function<void(Backend&)>& call) {
  Finite finite;
  ObservingBackend checked(device(), {&finite});
  try {
    call(checked);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::diverged);
    return error.what();
  }
  return "no error";
}

TEST(Finite, NamesTheKernelTheOutputAndTheElement) {
  const float nan = std::numeric_limits<float>::quiet_NaN(), big = std::numeric_limits<float>::max();
  const Tensor a = upload<float>(device(), {2, 2}, {1, 2, 3, big}),
               b = upload<float>(device(), {2, 2}, {1, 2, 3, big});
  const Tensor c = device().empty({2, 2});
  EXPECT_EQ(found_by([&](Backend& checked) {
              checked.run(call::Add{c, a, b});
            }),
            "add: y [2, 2] holds a number that is not finite at element 3");
  const Tensor poisoned = upload<float>(device(), {2, 2}, {1, nan, 1, 1});
  EXPECT_EQ(found_by([&](Backend& checked) {
              checked.run(call::GeluBackward{c, a, poisoned, Gelu::erf});
            }),
            "gelu_backward: dx [2, 2] holds a number that is not finite at element 1");
}

TEST(Finite, SeesWhatPackingLosesAndWhatUnpackingGives) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const Tensor x = upload<float>(device(), {1, 2}, {1, nan}), y = device().empty({1, 2});
  Rounded cast = room_for(device(), plain_cast(e2m1), Axis::row, {1, 2}, Layout::stored);
  EXPECT_EQ(found_by([&](Backend& checked) {
              quantize(checked, {&cast, 1}, x);
            }),
            "quantize: element 1 is NaN, for which 'e2m1' has no code");
  Rounded blocks = room_for(device(), mxfp4, Axis::row, {1, 2}, Layout::stored);
  EXPECT_EQ(found_by([&](Backend& checked) { quantize(checked, {&blocks, 1}, x); }), "no error");
  EXPECT_EQ(found_by([&](Backend& checked) {
              checked.run(call::Recode{unrounded(y), blocks});
            }),
            "recode: values [1, 2] holds a number that is not finite at element 0");
}

TEST(Finite, NamesTheSlotOfALinearLayerWhoseOperandOrProductIsNotFinite) {
  const float big = std::numeric_limits<float>::max();
  Parameter w{.name = "w", .value = upload<float>(device(), {1, 2}, {1, 1000})};
  const auto forward = [&](float x1, Quantizer LinearQuant::*slot, const char* format) {
    return found_by([&](Backend& checked) {
      Tape tape(checked, Tape::Mode::training);
      const Var x{upload<float>(device(), {1, 2}, {1, x1})};
      w.written(w.version + 1);
      LinearQuant quant;
      quant.*slot = parse_quantizer(format);
      ops::linear(tape, x, w, nullptr, quant, 0);
    });
  };
  EXPECT_EQ(forward(1, &LinearQuant::fprop_x, "f32"), "no error");
  EXPECT_EQ(forward(big, &LinearQuant::fprop_x, "f32"),
            "gemm: fprop.y [1, 1] holds a number that is not finite at element 0");
  // NaN above 448.
  EXPECT_EQ(forward(1000, &LinearQuant::fprop_x, "e4m3"),
            "quantize: fprop.x [1, 2] holds a number that is not finite at element 1");
  EXPECT_EQ(forward(1, &LinearQuant::fprop_w, "e4m3"),
            "quantize: fprop.w [1, 2] holds a number that is not finite at element 1");
  EXPECT_EQ(forward(1000, &LinearQuant::wgrad_x, "e4m3"),
            "quantize: wgrad.x [1, 2] holds a number that is not finite at element 1");
}

TEST(Finite, LooksAtOutputsOnlyWhereNoSlotIsMultiplied) {
  // The causal mask keeps what is not finite in a later token out of an earlier one's sums; here nothing at
  // all reads the table's bad row.
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const Tensor table = upload<float>(device(), {2, 1}, {1, nan}), y = device().empty({1, 2, 1});
  const Tensor tokens = upload<std::int32_t>(device(), {1, 2}, {0, 0});
  EXPECT_EQ(found_by([&](Backend& checked) {
              checked.run(call::Embedding{y, table, {}, tokens});
            }),
            "no error");
}

TEST(Finite, StopsATrainingPassAtTheFirstBadKernel) {
  const float infinity = std::numeric_limits<float>::infinity();
  Parameter w{.name = "w", .value = upload<float>(device(), {2, 2}, {1, 1, infinity, 1})};
  EXPECT_EQ(found_by([&](Backend& checked) {
              Tape tape(checked, Tape::Mode::training);
              const Var x{upload<float>(device(), {1, 2}, {1, 1})};
              ops::gelu(tape, ops::linear(tape, x, w, nullptr, {}, 0), Gelu::tanh);
            }),
            "gemm: fprop.w [2, 2] holds a number that is not finite at element 2");
}

}  // namespace
}  // namespace mxtape
