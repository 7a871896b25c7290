// Rotated copies that the CPU makes tile by tile: the definition of the rotation, then that of the quantizer.
#include <pthread.h>

#include "formats/rotation.h"
#include "kernels/choose/make_backend.h"
#include "tests/kernels/quantize_fixture.h"
#include "tests/support/straight_through.h"

namespace mxtape::test {
namespace {

Backend& rotator() {
  static const auto backend = make_backend("cpu", {.gemm = GemmKernels::integer});
  return *backend;
}

constexpr DrawKey draws{.seed = 3, .tensor_id = 4, .step = 5};

Rounded rotated_room(const char* format, Axis axis, const Shape& shape, Layout layout,
                     const Rotation& rotation) {
  Rounded copy = room_for(rotator(), parse_quantizer(format), axis, shape, layout);
  copy.by.rotation = rotation;
  copy.by.signs = {.seed = 6, .purpose = Purpose::hadamard_signs, .tensor_id = 1};
  return copy;
}

/// The numbers without the multiplier, and it.
std::vector<float> defined(const Rounded& copy, std::vector<float> x) {
  const std::int64_t rows = copy.rows(), cols = copy.cols();
  const Quantization& by = copy.by;
  if (by.rotation.size) rotate_reference(x.data(), x.data(), rows, cols, by.axis, by.rotation, by.signs);
  x.push_back(quantize_reference(x.data(), x.data(), rows, cols, by.axis, by.quantizer, draws));
  return x;
}
std::vector<float> made(const Rounded& copy) {
  const Tensor y = rotator().empty(copy.shape);
  Rounded to = unrounded(y);
  to.multiplier = copy.multiplier;
  rotator().run(call::Recode{to, copy});
  std::vector<float> values = download(rotator(), y);
  values.push_back(copy.multiplier ? *copy.multiplier.data() : 1);
  return values;
}
void expect_made(const Rounded& copy, const std::vector<float>& want) {
  const std::vector<float> got = made(copy);
  for (std::size_t i = 0; i < want.size(); ++i)  // codes have one zero
    ASSERT_TRUE(same(got[i], want[i]) || (copy.layout == Layout::codes && got[i] == want[i]))
        << to_text(copy.by.quantizer) << " " << to_text(copy.by.rotation) << " " << copy.shape.text()
        << " axis " << int(copy.by.axis) << " layout " << int(copy.layout) << " at " << i << ": got "
        << got[i] << ", want " << want[i] << " (" << cpu::name_of(cpu::tier()) << ")";
}

TEST(CpuTileRotation, GivesTheDefinitionsBits) {
  for (const Shape shape : {Shape{300, 70}, Shape{512, 300}, Shape{33, 2500}})
    for (const int size : {2, 16, 128, 256}) {
      // Long chunks of spread numbers would nearly all have an infinity in them.
      const std::vector<float> x =
          content(size < 32 ? Content::spread : Content::normal, shape.count(), std::uint64_t(size));
      const Tensor on_device = upload(rotator(), shape, x);
      for (const char* format :
           {"mxfp4 round=stochastic", "nvfp4", "mxfp4 block=64x16", "nvfp4 outer=none 4o6"})
        for (const Axis axis : {Axis::row, Axis::column})
          for (const Layout layout : {Layout::values, Layout::codes}) {
            SCOPED_TRACE(format);
            Rounded copy = rotated_room(format, axis, shape, layout, {size, SignsPer::call});
            const std::vector<float> want = defined(copy, x);
            on_every_tier([&] {
              quantize(rotator(), {&copy, 1}, on_device, draws);
              expect_made(copy, want);
            });
          }
    }
}

TEST(CpuTileRotation, GivesTheDefinitionsBitsBack) {
  const Shape shape{300, 2570};
  const std::vector<float> x = normals(shape.count(), 7);
  const Tensor dy = upload(rotator(), shape, x), dx = rotator().empty(shape);
  for (const int size : {2, 16, 128, 256})
    for (const Axis axis : {Axis::row, Axis::column}) {
      const Quantization by{.axis = axis,
                            .rotation = {size, SignsPer::run},
                            .signs = {.seed = 8, .purpose = Purpose::hadamard_signs}};
      std::vector<float> want = x;
      rotate_reference(want.data(), x.data(), 300, 2570, axis, by.rotation, by.signs, RotationWay::back);
      on_every_tier([&] {
        rotator().run(call::QuantizeBackward{.dx = dx, .dy = dy, .by = by, .rotated = true});
        EXPECT_EQ(download(rotator(), dx), want) << size << " axis " << int(axis);
      });
    }
}

// One pass makes both copies and the sums: its tiles fit both rotations.
TEST(CpuTileRotation, GivesTheDefinitionsBitsBesideAnotherCopyAndColumnSums) {
  const Shape shape{520, 1100};
  const std::vector<float> x = normals(shape.count(), 9);
  const Tensor on_device = upload(rotator(), shape, x), sums = rotator().empty({1100}),
               alone = rotator().empty({1100});
  rotator().run(call::Quantize{.to = {}, .x = on_device, .column_sums = alone});
  for (const int size : {0, 64, 256}) {
    Rounded copies[] = {
        rotated_room("nvfp4 round=stochastic", Axis::row, shape, Layout::codes, {256, SignsPer::none}),
        rotated_room("mxfp8", Axis::column, shape, Layout::values, {size, SignsPer::run})};
    quantize(rotator(), copies, on_device, draws, sums);
    for (const Rounded& copy : copies) expect_made(copy, defined(copy, x));
    EXPECT_EQ(download(rotator(), sums), download(rotator(), alone));
  }
}

// x is rotated, dy too unless it is already, and dx is rotated back: all in one pass.
TEST(CpuTileRotation, MasksARotatedGradientAsTheDefinition) {
  constexpr StraightThrough mask{.kind = SteKind::mask};
  for (const Shape shape : {Shape{70, 90}, Shape{300, 2570}})
    for (const char* format : {"mxfp4 statistic=rms rule=rnearest", "nvfp4 4o6"})
      for (const int size : {16, 128})
        for (const Axis axis : {Axis::row, Axis::column}) {
          const std::int64_t rows = shape[0], cols = shape[1];
          const Quantization by{.quantizer = parse_quantizer(format),
                                .axis = axis,
                                .rotation = {size, SignsPer::run},
                                .signs = {.seed = 8, .purpose = Purpose::hadamard_signs}};
          const std::vector<float> x = normals(shape.count(), 3), dy = normals(shape.count(), 4);
          const auto rotate = [&](const std::vector<float>& v, RotationWay way) {
            std::vector<float> y(v.size());
            rotate_reference(y.data(), v.data(), rows, cols, axis, by.rotation, by.signs, way);
            return y;
          };
          for (const bool rotated : {false, true}) {
            const std::vector<float> turned = rotate(x, RotationWay::forth),
                                     gradient = rotated ? dy : rotate(dy, RotationWay::forth);
            std::vector<float> want(x.size());
            straight_through_reference(want.data(), gradient.data(), turned.data(), rows, cols, axis,
                                       by.quantizer, mask, {});
            want = rotate(want, RotationWay::back);
            call::QuantizeBackward call{.dx = rotator().empty(shape),
                                        .x = upload(rotator(), shape, x),
                                        .by = by,
                                        .ste = mask,
                                        .rotated = rotated};
            on_every_tier([&] {
              call.dy = upload(rotator(), shape, dy);
              rotator().run(call);
              EXPECT_EQ(download(rotator(), call.dx), want) << format << " " << size << " " << int(axis);
              call::QuantizeBackward in_place = call;
              in_place.dx = call.dy;
              rotator().run(in_place);
              EXPECT_EQ(download(rotator(), call.dy), want) << format << " in place";
            });
          }
        }
}

// What a tile needs is not on the stack of the thread that makes it.
TEST(CpuTileRotation, FitsAStackOf256KiB) {
  const int before = threads();
  set_threads(1);  // the caller does all of it
  const auto work = [](void*) -> void* {
    const Shape shape{512, 512};
    const std::vector<float> x = normals(shape.count(), 2);
    const Tensor on_device = upload(rotator(), shape, x);
    for (const char* text : {"nvfp4 4o6 round=stochastic", "nvfp4 eden scale.round=stochastic"}) {
      Rounded copy = rotated_room(text, Axis::column, shape, Layout::codes, {128, SignsPer::run});
      quantize(rotator(), {&copy, 1}, on_device, draws);
      expect_made(copy, defined(copy, x));
    }
    return nullptr;
  };
  pthread_attr_t small;
  pthread_attr_init(&small);
  pthread_attr_setstacksize(&small, 256 << 10);
  pthread_t thread;
  ASSERT_EQ(pthread_create(&thread, &small, work, nullptr), 0);
  pthread_join(thread, nullptr);
  pthread_attr_destroy(&small);
  set_threads(before);
}

TEST(CpuTileRotation, TheNumberOfThreadsChangesNoBit) {
  const int before = threads();
  const Shape shape{300, 600};
  const std::vector<float> x = normals(shape.count(), 2);
  const Tensor on_device = upload(rotator(), shape, x);
  for (const int count : {1, 2, 3}) {
    set_threads(count);
    for (const char* text : {"nvfp4", "mxfp4 round=stochastic"}) {
      Rounded copy = rotated_room(text, Axis::column, shape, Layout::codes, {128, SignsPer::run});
      quantize(rotator(), {&copy, 1}, on_device, draws);
      expect_made(copy, defined(copy, x));
    }
  }
  set_threads(before);
}

}  // namespace
}  // namespace mxtape::test
