// Gradients through a rounding, and what a copy is worth: the definition's bits on every device.
#include "formats/rotation.h"
#include "tests/kernels/quantize_fixture.h"
#include "tests/support/straight_through.h"

namespace mxtape::test {
namespace {

constexpr DrawKey signs{5, Purpose::hadamard_signs, 3, 0, 0};
constexpr DrawKey draws{7, Purpose::rounding, 9, 2, 640};

struct Way {
  Quantizer quantizer;
  Axis axis;
  StraightThrough ste;
  Rotation rotation{};
  bool rotated = false;
};

Tensor of_type(DType dtype, Shape shape, std::vector<float>& values) {
  const Tensor wide = upload(device(), shape, values);
  if (dtype == DType::f32) return wide;
  const Tensor narrow = device().empty(shape, dtype);
  device().copy(narrow, wide);
  values = download(device(), narrow);
  return narrow;
}

std::vector<float> by_definition(const Way& way, Shape shape, const std::vector<float>& dy,
                                 const std::vector<float>& x) {
  const std::int64_t rows = shape.rows(), cols = shape.cols();
  std::vector<float> gradient = dy, source = x;
  const auto turn = [&](std::vector<float>& v, RotationWay there) {
    if (way.rotation.size)
      rotate_reference(v.data(), v.data(), rows, cols, way.axis, way.rotation, signs, there);
  };
  if (!way.rotated) turn(gradient, RotationWay::forth);
  turn(source, RotationWay::forth);
  if (way.ste.kind != SteKind::identity)
    straight_through_reference(gradient.data(), gradient.data(), source.data(), rows, cols, way.axis,
                               way.quantizer, way.ste, draws);
  turn(gradient, RotationWay::back);
  return gradient;
}

void expect_definition(const Way& way, Shape shape, DType dtype, Content kind = Content::normal) {
  SCOPED_TRACE(fmt::format("{} {} {} {} axis {}", to_text(way.quantizer), to_text(way.ste),
                           to_text(way.rotation), shape.text(), int(way.axis)));
  auto dy_values = normals(shape.count(), 2), x_values = content(kind, shape.count(), 3);
  const Tensor dy = of_type(dtype, shape, dy_values), x = of_type(dtype, shape, x_values);
  call::QuantizeBackward call{.dx = device().empty(shape, dtype),
                              .dy = dy,
                              .x = x,
                              .by = {way.quantizer, way.axis, way.rotation, signs, draws},
                              .ste = way.ste,
                              .rotated = way.rotated};
  auto want = by_definition(way, shape, dy_values, x_values);
  if (dtype == DType::bf16)
    for (float& v : want) v = to_f32(to_bf16(v));
  const auto check = [&](const char* what) {
    device().run(call);
    const auto got = download(device(), call.dx);
    for (std::size_t i = 0; i < want.size(); ++i)
      ASSERT_TRUE(same(got[i], want[i])) << what << " " << i << ": " << got[i] << ", want " << want[i];
  };
  check("elsewhere");
  call.dx = dy;
  check("in place");
}

TEST(QuantizeBackward, IsTheDefinitionForEveryKindOfScale) {
  for (const char* text :
       {"mxfp4", "mxfp4 alpha=0.75", "nvfp4", "nvfp4 4o6", "mxfp4 statistic=rms rule=rnearest",
        "e2m1 block=16x16 scale=e4m3", "int4 block=32 scale=f32 offset=int", "e4m3", "mxint8 block=axis",
        "nvfp4 outer=axis", "e2m1 scale=e4m3 block=16 scale.round=stochastic eden"})
    for (const Axis axis : {Axis::row, Axis::column})
      for (const char* ste : {"ste=mask", "ste=dge"})
        for (const Shape shape : {Shape{70, 48}, Shape{3, 130}, Shape{1, 1}})
          expect_definition({parse_quantizer(text), axis, parse_straight_through(ste)}, shape, DType::f32);
}

TEST(QuantizeBackward, TakesActivationsOfBothTypesAndSpecialNumbers) {
  for (const char* text : {"mxfp4", "nvfp4"}) {
    const Way way{parse_quantizer(text), Axis::row, parse_straight_through("ste=dge")};
    expect_definition(way, {40, 70}, DType::bf16);
    expect_definition(way, {40, 70}, DType::f32, Content::spread);
    expect_definition(way, {40, 70}, DType::f32, Content::specials);
  }
}

TEST(QuantizeBackward, GoesBackThroughTheRotation) {
  for (const char* ste : {"ste=identity", "ste=mask", "ste=dge"})
    for (const Axis axis : {Axis::row, Axis::column})
      for (const SignsPer per : {SignsPer::none, SignsPer::run})
        for (const bool rotated : {false, true})
          for (const Shape shape : {Shape{70, 48}, Shape{0, 48}, Shape{70, 0}})
            expect_definition({mxfp4, axis, parse_straight_through(ste), {.size = 32, .signs = per}, rotated},
                              shape, DType::f32);
}

TEST(QuantizeBackward, WantsTensorsThatFit) {
  const Tensor dy = device().empty({2, 2});
  call::QuantizeBackward call{.dx = dy, .dy = dy, .by = {.quantizer = mxfp4}, .ste = {SteKind::mask}};
  try {
    device().run(call);
    FAIL();
  } catch (const Error& e) {
    EXPECT_STREQ(e.what(), "quantize_backward: dx is [2, 2], dy [2, 2], x not there; want the same size");
  }
  call.x = device().empty({4, 1});
  EXPECT_THROW(device().run(call), Error);
  call.x = dy, call.dx = device().empty({1, 4});
  EXPECT_THROW(device().run(call), Error);
}

TEST(Recode, IsValuesTimesTheMultiplierInEveryPairOfTypes) {
  const Shape shape{33, 40};
  const Tensor multiplier = upload<float>(device(), {1}, {0.7f});
  for (const DType from : {DType::f32, DType::bf16})
    for (const DType to : {DType::f32, DType::bf16})
      for (const bool multiplied : {false, true}) {
        auto values = normals(shape.count(), 4);
        const Tensor x = of_type(from, shape, values), y = device().empty(shape, to);
        Rounded from = unrounded(x);
        if (multiplied) from.multiplier = multiplier;
        device().run(call::Recode{unrounded(y), from});
        const auto got = download(device(), y);
        for (std::size_t i = 0; i < got.size(); ++i) {
          const float want = values[i] * (multiplied ? 0.7f : 1.0f);
          ASSERT_EQ(got[i], to == DType::bf16 ? to_f32(to_bf16(want)) : want);
        }
      }
}

}  // namespace
}  // namespace mxtape::test
