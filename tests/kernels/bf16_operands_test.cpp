#include <gtest/gtest.h>

#include "tests/support/device.h"
#include "tests/support/tensors.h"

namespace mxtape::test {
namespace {

Tensor narrow(Backend& backend, Shape shape, const std::vector<float>& values) {
  const Tensor y = backend.empty(shape, DType::bf16);
  backend.copy(y, upload(backend, shape, values));
  return y;
}
Tensor wide(Backend& backend, const Tensor& x) {
  const Tensor y = backend.empty(x.shape());
  backend.copy(y, x);
  return y;
}
std::vector<float> rounded(std::vector<float> x) {
  for (float& v : x) v = to_f32(to_bf16(v));
  return x;
}

TEST(Bf16Operands, TakePartInGemmAndQuantizeAsTheirValues) {
  Backend& d = device();
  constexpr std::int64_t rows = 5, C = 33;
  const Shape shape{rows, C};
  const Tensor a = narrow(d, {rows, C}, normals(rows * C, 1)), b = narrow(d, {C, 6}, normals(C * 6, 2));
  const Tensor c = d.empty({rows, 6}, DType::bf16), f = d.empty({rows, 6});
  d.gemm(c, {a}, {b});
  d.gemm(f, {a}, {b});
  EXPECT_EQ(download(d, c), rounded(download(d, f)));

  QuantizedCopy copies[] = {{.quantizer = mxfp4, .axis = Axis::cols, .values = d.empty(shape, DType::bf16)},
                            {.quantizer = mxfp4, .axis = Axis::rows, .values = d.empty(shape, DType::bf16)}};
  d.quantize(copies, a, {});
  const auto along_rows = download(d, copies[0].values), along_columns = download(d, copies[1].values);
  d.quantize(copies, wide(d, a), {});
  EXPECT_EQ(download(d, copies[0].values), along_rows);
  EXPECT_EQ(download(d, copies[1].values), along_columns);
}

}  // namespace
}  // namespace mxtape::test
