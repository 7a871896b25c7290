#pragma once
#include <cstdint>
#include <random>
#include <vector>

#include "kernels/backend.h"

namespace mxtape::test {

/// n numbers N(0, deviation^2).
inline std::vector<float> normals(std::int64_t n, unsigned seed, float deviation = 1) {
  std::mt19937 random(seed);
  std::normal_distribution<float> draw(0, deviation);
  std::vector<float> values;
  for (std::int64_t i = 0; i < n; ++i) values.push_back(draw(random));
  return values;
}

/// n tokens in [0, vocabulary).
inline std::vector<std::int32_t> random_tokens(std::int64_t n, std::int32_t vocabulary, unsigned seed) {
  std::mt19937 random(seed);
  std::uniform_int_distribution<std::int32_t> draw(0, vocabulary - 1);
  std::vector<std::int32_t> tokens;
  for (std::int64_t i = 0; i < n; ++i) tokens.push_back(draw(random));
  return tokens;
}

template <class T>
Tensor upload(Backend& backend, Shape shape, const std::vector<T>& values) {
  require(std::int64_t(values.size()) == shape.count(), "upload: {} values for {}", values.size(),
          shape.text());
  Tensor x = backend.empty(shape, dtype_of<T>);
  backend.upload(x, values.data());
  return x;
}

/// The elements as f32; bf16 is widened.
inline std::vector<float> download(Backend& backend, const Tensor& x) {
  std::vector<float> values(std::size_t(x.count()));
  if (x.dtype() == DType::bf16) {
    std::vector<bf16> narrow(values.size());
    backend.download(narrow.data(), x);
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = to_f32(narrow[i]);
  } else {
    require(x.dtype() == DType::f32, "download: x is {}, want f32 or bf16", name_of(x.dtype()));
    backend.download(values.data(), x);
  }
  return values;
}

inline std::vector<double> widened(const std::vector<float>& x) { return {x.begin(), x.end()}; }

}  // namespace mxtape::test
