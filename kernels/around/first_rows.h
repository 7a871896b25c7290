#pragma once
#include <algorithm>
#include <memory>

#include "core/tensor.h"

namespace mxtape {

/// The first rows of x, at most `rows`, in the same memory: valid as long as x is.
inline Tensor first_rows(const Tensor& x, std::int64_t rows) {
  const std::shared_ptr<void> not_owned(std::shared_ptr<void>(), x.raw());
  return {not_owned, {std::min(rows, x.rows()), x.cols()}, x.dtype()};
}

}  // namespace mxtape
