#pragma once
#include <string>
#include <vector>

#include "kernels/backend.h"
#include "tests/conformance/outcome.h"

namespace mxtape::conformance {

/// A matrix on the host, with the type that the backend keeps it in.
struct Matrix {
  std::int64_t rows = 0, cols = 0;
  std::vector<float> values{};
  DType dtype = DType::f32;
};

/// x [batches * rows, cols] rounded by the backend, each batch on its own.
Matrix quantized(Backend& backend, const Matrix& x, std::int64_t batches, Axis axis, const Quantizer& q);
/// Every element rounded to bf16; overflow to infinity.
Matrix rounded_to_bf16(Backend& backend, const Matrix& x, Rounding rounding);
/// The backend's op(a) op(b) + bias, and per element whether its sum is exact in f32 in any order: all
/// products are multiples of one power of two and their magnitudes add up to less than 2^24 of it.
struct Product {
  Matrix values;
  std::vector<bool> exact;
};
Product multiply(Backend& backend, const Matrix& a, Axis a_axis, const Matrix& b, Axis b_axis,
                 const std::vector<float>& bias = {});

/// Compares with the array of a case: equal where the sum is exact, else within the case's tolerance (a
/// factor of the largest magnitude wanted, or one unit in the last place of bf16). Empty if all is well.
std::string compare_product(const Case& c, const std::string& field, const std::vector<float>& got,
                            const std::vector<bool>& exact);

}  // namespace mxtape::conformance
