#pragma once
#include <gtest/gtest.h>

#include <random>
#include <string>

#include "tests/support/device.h"
#include "tests/support/gemm_problem.h"

namespace mxtape::test {

class Gemm : public testing::Test {
 protected:
  Rounded left(const Problem& p, DType dtype) {
    return unrounded(upload_as(device(), dtype, p.a_shape(), p.a), p.a_axis);
  }
  Rounded right(const Problem& p, DType dtype) {
    return unrounded(upload_as(device(), dtype, p.b_shape(), p.b), p.b_axis);
  }
  void expect_exact(const Problem& p, const Tensor& c, const std::string& what) {
    const auto got = download(device(), c);
    for (std::int64_t m = 0; m < p.e.M; ++m)
      for (std::int64_t n = 0; n < p.e.N; ++n) {
        const float sum = float(p.sum(m, n));
        ASSERT_EQ(got[std::size_t(m * p.e.N + n)], c.dtype() == DType::bf16 ? to_f32(to_bf16(sum)) : sum)
            << what << ": " << p.e.M << "x" << p.e.N << "x" << p.e.K << " at " << m << ", " << n << " along "
            << int(p.a_axis) << int(p.b_axis);
      }
  }

  std::mt19937_64 random{1};
};

}  // namespace mxtape::test
