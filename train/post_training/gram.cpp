#include "train/post_training/gram.h"

#include <Eigen/Cholesky>
#include <algorithm>

#include "core/error.h"
#include "core/parallel.h"

namespace mxtape {
namespace {

using RowMajor = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
using Floats = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

constexpr std::int64_t tile = 128;          // columns of a tile of G
constexpr std::int64_t rows_at_once = 256;  // of X, widened to double

}  // namespace

Gram::Gram(std::int64_t features) : features_(features), sums_(std::size_t(features * features)) {}

void Gram::add(const float* x, std::int64_t rows) {
  const std::int64_t k = features_, tiles = (k + tile - 1) / tile;
  Eigen::Map<RowMajor> g(sums_.data(), k, k);
  for (std::int64_t first = 0; first < rows; first += rows_at_once) {
    const std::int64_t count = std::min(rows_at_once, rows - first);
    const RowMajor part = Eigen::Map<const Floats>(x + first * k, count, k).cast<double>();
    parallel_for(tiles * tiles, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t t = begin; t < end; ++t) {
        const std::int64_t i = t / tiles * tile, j = t % tiles * tile;
        if (j > i) continue;
        const std::int64_t ni = std::min(tile, k - i), nj = std::min(tile, k - j);
        g.block(i, j, ni, nj).noalias() += part.middleCols(i, ni).transpose() * part.middleCols(j, nj);
      }
    });
  }
  g.triangularView<Eigen::StrictlyUpper>() = g.transpose();
  rows_ += rows;
}

std::int64_t Gram::dead() const {
  return (Eigen::Map<const RowMajor>(sums_.data(), features_, features_).diagonal().array() == 0).count();
}

double Gram::squared_output(const float* d, std::int64_t n) const {
  const std::int64_t k = features_;
  const Eigen::Map<const RowMajor> g(sums_.data(), k, k);
  std::vector<double> of_rows(std::size_t(n), 0.0);
  parallel_for(n, 16, [&](std::int64_t begin, std::int64_t end) {
    const RowMajor rows = Eigen::Map<const Floats>(d + begin * k, end - begin, k).cast<double>();
    const RowMajor products = rows * g;
    for (std::int64_t r = begin; r < end; ++r)
      of_rows[std::size_t(r)] = products.row(r - begin).dot(rows.row(r - begin));
  });
  double sum = 0;
  for (const double row : of_rows) sum += row;
  return std::max(sum, 0.0);
}

std::vector<double> error_paths(const Gram& gram, double damping) {
  const std::int64_t k = gram.features();
  RowMajor g = Eigen::Map<const RowMajor>(gram.sums().data(), k, k);
  const double mean = g.diagonal().mean();
  require(g.allFinite(), ExitCode::diverged,
          "the products of its inputs are not finite: look for NaN with mxtape inspect, or calibrate on "
          "other data");
  std::vector<double> paths(std::size_t(k * k), 0.0);
  Eigen::Map<RowMajor> u(paths.data(), k, k);
  u.setIdentity();
  if (mean == 0) return paths;
  for (std::int64_t i = 0; i < k; ++i) {
    if (g(i, i) == 0) g(i, i) = mean;
    g(i, i) += damping * mean;
  }
  // Cholesky from the last column on: with R = "read backwards", R G R = L L^T gives G = V V^T, V = R L R
  // upper triangular, and U = V^-1.
  g = g.reverse().eval();
  Eigen::LLT<Eigen::Ref<RowMajor>> cholesky(g);
  const double least = cholesky.info() == Eigen::Success ? g.diagonal().cwiseAbs().minCoeff() : 0;
  // Below this share of the diagonal's mean, a pivot is rounding noise.
  const bool definite = least * least > 1e-12 * mean;
  require(definite, ExitCode::usage,
          "the {} rows of calibration do not tell its {} inputs apart (the Gram matrix is singular); want "
          "more windows, or damping above {}",
          gram.rows(), k, damping);
  const RowMajor v = g.reverse();
  v.triangularView<Eigen::Upper>().solveInPlace(u);
  return paths;
}

}  // namespace mxtape
