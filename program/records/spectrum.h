#pragma once
#include <cstdint>
#include <vector>

namespace mxtape {

/// What the singular values of a matrix say.
struct Spectrum {
  std::vector<double> values;  ///< descending; as many as the smaller side
  double effective_rank = 0;   ///< exp(entropy of values / their sum) (Roy & Vetterli 2007)
  double largest_share = 0;    ///< of the sum of squares that the largest has
};

/// Of x [rows, cols], row-major. Those below 1e-8 of the largest are zero: they are square roots of
/// eigenvalues of the smaller Gram matrix, in double.
Spectrum spectrum_of(const float* x, std::int64_t rows, std::int64_t cols);

}  // namespace mxtape
