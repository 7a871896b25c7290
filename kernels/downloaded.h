#pragma once
#include <algorithm>
#include <vector>

#include "core/error.h"
#include "kernels/backend.h"

namespace mxtape {

/// The numbers of x, f32 or bf16, on the host.
inline std::vector<float> downloaded(Backend& backend, const Tensor& x) {
  std::vector<float> values(std::size_t(x.count()));
  if (x.dtype() == DType::f32) {
    backend.download(values.data(), x);
    return values;
  }
  require(x.dtype() == DType::bf16, "download: numbers in {}; want f32 or bf16", name_of(x.dtype()));
  std::vector<bf16> narrow(values.size());
  backend.download(narrow.data(), x);
  std::transform(narrow.begin(), narrow.end(), values.begin(), [](bf16 v) { return to_f32(v); });
  return values;
}

}  // namespace mxtape
