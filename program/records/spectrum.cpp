#include "program/records/spectrum.h"

#include <Eigen/Eigenvalues>
#include <algorithm>
#include <cmath>

namespace mxtape {

Spectrum spectrum_of(const float* x, std::int64_t rows, std::int64_t cols) {
  using RowMajor = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
  const Eigen::MatrixXd m = Eigen::Map<const RowMajor>(x, rows, cols).cast<double>();
  const Eigen::MatrixXd gram =
      rows < cols ? Eigen::MatrixXd(m * m.transpose()) : Eigen::MatrixXd(m.transpose() * m);
  const Eigen::SelfAdjointEigenSolver<Eigen::MatrixXd> solver(gram, Eigen::EigenvaluesOnly);
  Spectrum s;
  double sum = 0, squares = 0;
  for (Eigen::Index i = solver.eigenvalues().size(); i-- > 0;) {
    const double square = std::max(solver.eigenvalues()[i], 0.0);
    const double largest = s.values.empty() ? 0 : s.values.front(), value = std::sqrt(square);
    s.values.push_back(value < 1e-8 * largest ? 0 : value);
    sum += s.values.back(), squares += s.values.back() * s.values.back();
  }
  double entropy = 0;
  for (const double value : s.values)
    if (value > 0) entropy -= value / sum * std::log(value / sum);
  s.effective_rank = sum > 0 ? std::exp(entropy) : 0;
  s.largest_share = squares > 0 ? s.values.front() * s.values.front() / squares : 0;
  return s;
}

}  // namespace mxtape
