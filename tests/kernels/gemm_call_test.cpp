#include "core/error.h"
#include "tests/kernels/gemm_fixture.h"
#include "tests/support/rounded.h"

namespace mxtape::test {
namespace {

TEST_F(Gemm, ARepeatedCallGivesTheSameBits) {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    const Problem p = normal_values({40, 24, 2048}, random);  // so small and deep that K may be split
    const Rounded a = left(p, dtype), b = right(p, dtype);
    const Tensor c = device().empty({40, 24}), again = device().empty({40, 24});
    device().run(call::Gemm{c, a, b});
    device().run(call::Gemm{again, a, b});
    EXPECT_EQ(download(device(), c), download(device(), again)) << name_of(dtype);
  }
}

/// A tensor of `shape` whose first element is `offset` elements into `memory`.
Tensor view(const Tensor& memory, std::int64_t offset, Shape shape) {
  void* const first = static_cast<char*>(memory.raw()) + offset * size_of(memory.dtype());
  return {std::shared_ptr<void>(std::make_shared<Tensor>(memory), first), shape, memory.dtype()};
}

TEST_F(Gemm, OperandsAndOutputMayStartInsideACacheLineAndNothingElseIsWritten) {
  for (const std::int64_t offset : {64, 8, 1})
    for (const DType dtype : {DType::f32, DType::bf16})
      for (const Extents e : {Extents{5, 7, 9}, {64, 64, 32}, {130, 17, 77}}) {
        const Problem p = small_integers(e, Axis::row, Axis::column, random);
        const auto placed = [&](const std::vector<float>& values, Shape shape) {
          const Tensor all = device().empty({offset + shape.count()}, dtype);
          const Tensor part = view(all, offset, shape);
          device().copy(part, upload(device(), shape, values));
          return part;
        };
        const Tensor memory = device().empty({e.M * e.N + 2 * offset});
        device().fill(memory, 77);
        const Tensor c = view(memory, offset, {e.M, e.N});
        device().run(call::Gemm{c, unrounded(placed(p.a, p.a_shape())),
                                unrounded(placed(p.b, p.b_shape()), Axis::column)});
        expect_exact(p, c, "from element " + std::to_string(offset));
        const auto all = download(device(), memory);
        for (std::int64_t i = 0; i < offset; ++i) {
          ASSERT_EQ(all[std::size_t(i)], 77) << i;
          ASSERT_EQ(all[std::size_t(offset + e.M * e.N + i)], 77) << i;
        }
      }
}

TEST_F(Gemm, ABiasMayStartInsideACacheLine) {
  const Extents e{6, 9, 5};
  const Problem p = small_integers(e, Axis::row, Axis::column, random);
  std::vector<float> numbers(10);
  for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = float(i);
  const Tensor bias = view(upload(device(), {10}, numbers), 1, {9}), c = device().empty({e.M, e.N});
  device().run(call::Gemm{c, left(p, DType::bf16), right(p, DType::bf16), bias});
  const auto got = download(device(), c);
  for (std::int64_t i = 0; i < c.count(); ++i)
    ASSERT_EQ(got[std::size_t(i)], float(p.sum(i / e.N, i % e.N) + double(i % e.N + 1)));
}

TEST_F(Gemm, AnOperandWhoseBlocksDoNotRunAlongTheSumIsRefusedByItsSlot) {
  const auto refused = [](Rounded a, Rounded b) -> std::string {
    try {
      device().run(call::Gemm{device().empty({32, 32}), std::move(a), std::move(b)});
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  for (int i = 0; i < slots_of_linear + slots_of_attention; ++i) {
    const auto slot = Slot(i);
    const Axis axis = axis_of(slot), other = axis == Axis::row ? Axis::column : Axis::row;
    const auto operand = [&](const char* format, Axis blocks) {
      Rounded r = room_for(device(), parse_quantizer(format), blocks, {32, 32});
      r.axis = axis, r.site.slot = slot;
      device().fill(r.elements, 1);
      return r;
    };
    const Rounded right = operand("mxfp4", axis), wrong = operand("mxfp4", other);
    for (const std::string& message : {refused(wrong, right), refused(right, wrong)})
      EXPECT_TRUE(
          message.starts_with("gemm: " + std::string(name_of(slot)) + " is bf16 [32, 32] summed along") &&
          message.ends_with("but the blocks of 'mxfp4' run along the other axis"))
          << message;
    for (const char* either : {"mxfp4 block=32x32", "bf16"})
      EXPECT_EQ(refused(operand(either, other), right), "") << either;
  }
}

TEST_F(Gemm, WhatIsNoMatrixToMultiplyIsRefused) {
  const auto multiply = [](const Rounded& a, const Rounded& b) {
    device().run(call::Gemm{device().empty({32, 32}), a, b});
  };
  const Rounded x = unrounded(device().empty({32, 32}));
  const Rounded waits = with_room(device(), wanted(mxfp4, Axis::column, {32, 32}, Layout::narrow_values));
  EXPECT_THROW(multiply(waits, waits), Error) << "a narrow layout";
  Rounded missing = x, short_of = x, turned = x;
  missing.elements = {};
  EXPECT_THROW(multiply(missing, x), Error) << "no numbers";
  short_of.elements = device().empty({16, 32});
  EXPECT_THROW(multiply(x, short_of), Error) << "half of its numbers";
  turned.by.axis = Axis::column, turned.by.rotation.size = 32;
  EXPECT_THROW(multiply(turned, x), Error) << "chunks that were rotated along the other axis";
}

TEST_F(Gemm, ShapesThatDoNotFitAreAnErrorThatNamesThem) {
  try {
    device().run(call::Gemm{device().empty({2, 5}), unrounded(device().empty({2, 3})),
                            unrounded(device().empty({4, 5}), Axis::column)});
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_TRUE(std::string(error.what())
                    .starts_with("gemm: a is f32 [2, 3] summed along rows, b is f32 [4, 5] summed along "
                                 "columns, c is f32 [2, 5]; want"))
        << error.what();
  }
  const Rounded a = unrounded(device().empty({2, 3})), b = unrounded(device().empty({3, 5}), Axis::column);
  EXPECT_THROW(device().run(call::Gemm{device().empty({2, 5}), a, b, device().empty({4})}), Error);
  EXPECT_THROW(device().run(call::Gemm{device().empty({2, 5}, DType::bf16), a, b, {}, Write::accumulate}),
               Error)
      << "sums that go on are f32";
}

}  // namespace
}  // namespace mxtape::test
