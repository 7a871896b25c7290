#pragma once
#include <cstdint>
#include <vector>

namespace mxtape {

/// G = X^T X [K, K] of the inputs X [rows, K] of a linear layer, in double: the squared error of its outputs
/// for any change D [N, K] of its weight is ||X D^T||^2 = trace(D G D^T).
class Gram {
 public:
  explicit Gram(std::int64_t features);

  /// Adds rows of x [rows, K]. The same bits at any number of threads.
  void add(const float* x, std::int64_t rows);

  std::int64_t features() const { return features_; }
  std::int64_t rows() const { return rows_; }
  /// [K, K], symmetric.
  const std::vector<double>& sums() const { return sums_; }
  /// Inputs that were 0 in every row.
  std::int64_t dead() const;
  /// trace(D G D^T) of d [N, K].
  double squared_output(const float* d, std::int64_t n) const;

 private:
  std::int64_t features_, rows_ = 0;
  std::vector<double> sums_;
};

/// U [K, K], upper triangular and row-major, with U^T U = (G + damping * mean(diagonal of G) * I)^-1. Row j
/// is how the error of column j is carried on to the columns after it: Frantar et al. 2023, arXiv:2210.17323,
/// section 3.3, equation 3 and step 3. A dead input has its own entry of the diagonal alone. The identity, if
/// all inputs are dead. Throws Error(diverged) if G is not finite; Error(usage) if the damped matrix is not
/// positive definite.
std::vector<double> error_paths(const Gram&, double damping);

}  // namespace mxtape
