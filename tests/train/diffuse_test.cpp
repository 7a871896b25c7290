#include "train/post_training/diffuse.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

#include "core/error.h"
#include "core/parallel.h"
#include "tests/support/tensors.h"
#include "train/post_training/gram.h"

namespace mxtape::test {
namespace {

/// Inputs [rows, k] whose neighbouring features correlate: x_j = rho x_{j-1} + sqrt(1 - rho^2) noise.
std::vector<float> correlated(std::int64_t rows, std::int64_t k, unsigned seed, float rho = 0.9f) {
  std::vector<float> x = normals(rows * k, seed);
  for (std::int64_t r = 0; r < rows; ++r)
    for (std::int64_t j = 1; j < k; ++j) {
      float& here = x[std::size_t(r * k + j)];
      here = rho * x[std::size_t(r * k + j - 1)] + std::sqrt(1 - rho * rho) * here;
    }
  return x;
}

Gram gram_of(const std::vector<float>& x, std::int64_t k) {
  Gram gram(k);
  gram.add(x.data(), std::int64_t(x.size()) / k);
  return gram;
}

std::vector<double> identity(std::int64_t k) {
  std::vector<double> eye(std::size_t(k * k), 0.0);
  for (std::int64_t i = 0; i < k; ++i) eye[std::size_t(i * k + i)] = 1;
  return eye;
}

/// ||X (W - Q)^T||^2, plainly.
double squared_error(const std::vector<float>& x, const std::vector<float>& w, const std::vector<float>& q,
                     std::int64_t k) {
  double sum = 0;
  for (std::size_t row = 0; row < x.size(); row += std::size_t(k))
    for (std::size_t out = 0; out < w.size(); out += std::size_t(k)) {
      double y = 0;
      for (std::size_t j = 0; j < std::size_t(k); ++j)
        y += double(x[row + j]) * (double(w[out + j]) - double(q[out + j]));
      sum += y * y;
    }
  return sum;
}

using Matrix = std::vector<std::vector<double>>;

/// Gauss and Jordan, without pivots: for positive definite matrices.
Matrix inverse(Matrix a) {
  const std::size_t n = a.size();
  Matrix b(n, std::vector<double>(n, 0.0));
  for (std::size_t i = 0; i < n; ++i) b[i][i] = 1;
  for (std::size_t p = 0; p < n; ++p) {
    const double pivot = a[p][p];
    for (std::size_t j = 0; j < n; ++j) a[p][j] /= pivot, b[p][j] /= pivot;
    for (std::size_t i = 0; i < n; ++i) {
      const double factor = a[i][p];
      if (i == p || factor == 0) continue;
      for (std::size_t j = 0; j < n; ++j) a[i][j] -= factor * a[p][j], b[i][j] -= factor * b[p][j];
    }
  }
  return b;
}

/// The nearest of E2M1's numbers times 2^e, e from OCP's floor rule.
double nearest_e2m1(double v, int e) {
  double best = 0;
  for (const double grid : {0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0})
    for (const double q : {std::ldexp(grid, e), -std::ldexp(grid, e)})
      if (std::abs(v - q) < std::abs(v - best)) best = q;
  return best;
}

/// Error diffusion as its derivation has it, with the inverse of the Gram matrix of the columns that are left
/// computed anew for each column; E2M1 in blocks of along x across. What remains of G's inverse after a
/// column is the inverse of what remains of G.
Matrix diffused_plainly(const std::vector<float>& w, const std::vector<float>& x, std::size_t k,
                        double damping, std::size_t along, std::size_t across) {
  const std::size_t n = w.size() / k;
  Matrix g(k, std::vector<double>(k, 0.0)), work(n, std::vector<double>(k)), q = work;
  double trace = 0;
  for (std::size_t i = 0; i < k; ++i)
    for (std::size_t j = 0; j < k; ++j)
      for (std::size_t row = 0; row < x.size(); row += k) g[i][j] += double(x[row + i]) * double(x[row + j]);
  for (std::size_t i = 0; i < k; ++i) trace += g[i][i];
  for (std::size_t i = 0; i < k; ++i) g[i][i] += damping * trace / double(k);
  for (std::size_t r = 0; r < n; ++r)
    for (std::size_t j = 0; j < k; ++j) work[r][j] = double(w[r * k + j]);
  std::vector<int> exponents(n);
  for (std::size_t c = 0; c < k; ++c) {
    if (c % along == 0)
      for (std::size_t r = 0; r < n; ++r) {
        double amax = 0;
        for (std::size_t s = r / across * across; s < std::min(n, r / across * across + across); ++s)
          for (std::size_t j = c; j < std::min(k, c + along); ++j)
            amax = std::max(amax, std::abs(work[s][j]));
        exponents[r] = int(std::floor(std::log2(amax))) - 2;
      }
    Matrix left(k - c, std::vector<double>(k - c));
    for (std::size_t i = c; i < k; ++i)
      for (std::size_t j = c; j < k; ++j) left[i - c][j - c] = g[i][j];
    const Matrix h = inverse(left);
    for (std::size_t r = 0; r < n; ++r) {
      q[r][c] = nearest_e2m1(work[r][c], exponents[r]);
      const double error = (work[r][c] - q[r][c]) / h[0][0];
      for (std::size_t j = c + 1; j < k; ++j) work[r][j] -= error * h[0][j - c];
    }
  }
  return q;
}

TEST(Diffuse, GivesWhatAPlainComputationInDoubleGives) {
  constexpr std::int64_t n = 6, k = 40, rows = 64;
  for (const auto& [text, along, across] :
       {std::tuple{"mxfp4", 32, 1}, std::tuple{"mxfp4 block=8", 8, 1}, std::tuple{"mxfp4 block=8x4", 8, 4},
        std::tuple{"mxfp4 block=axis", 40, 1}})
    for (unsigned seed = 1; seed <= 5; ++seed) {
      SCOPED_TRACE(fmt::format("{} seed {}", text, seed));
      const auto x = correlated(rows, k, seed), w = normals(n * k, seed + 100);
      const auto result = diffuse(w.data(), n, k, parse_quantizer(text), error_paths(gram_of(x, k), 0.01));
      const Matrix wanted = diffused_plainly(w, x, k, 0.01, std::size_t(along), std::size_t(across));
      int carried = 0;
      const auto direct = cast_directly(w.data(), n, k, parse_quantizer(text));
      for (std::int64_t i = 0; i < n * k; ++i) {
        EXPECT_EQ(double(result.values[std::size_t(i)]), wanted[std::size_t(i / k)][std::size_t(i % k)])
            << "at " << i / k << ", " << i % k;
        carried += result.values[std::size_t(i)] != direct[std::size_t(i)];
      }
      EXPECT_GT(carried, n * k / 10) << "a direct cast would pass";
    }
}

TEST(Diffuse, ErrsLessThanADirectCastWhereInputsCorrelate) {
  constexpr std::int64_t n = 24, k = 96, rows = 256;
  for (const char* text :
       {"mxfp4", "nvfp4", "mxint8", "mxfp6_e2m3", "mxfp6_e3m2", "mxfp8_e4m3", "int4 block=32 scale=f32",
        "e4m3", "mxfp4 rule=even", "int4 block=16 scale=e8m0 offset=int", "mxfp4 block=16x16"})
    for (unsigned seed = 1; seed <= 3; ++seed) {
      SCOPED_TRACE(fmt::format("{} seed {}", text, seed));
      const auto x = correlated(rows, k, seed), w = normals(n * k, seed + 10);
      const Gram gram = gram_of(x, k);
      const Quantizer q = parse_quantizer(text);
      const auto direct = cast_directly(w.data(), n, k, q);
      const auto result = diffuse(w.data(), n, k, q, error_paths(gram, 0.01));
      EXPECT_LT(squared_error(x, w, result.values, k), 0.7 * squared_error(x, w, direct, k));
    }
}

const char* const formats[] = {"mxfp4",
                               "mxfp4 rule=ceil",
                               "mxfp4 rule=even",
                               "mxfp4 rule=rceil block=16",
                               "mxfp4 block=16x16",
                               "mxfp4 block=axis",
                               "mxfp4 block=tensor",
                               "mxfp4 search",
                               "nvfp4",
                               "nvfp4 4o6",
                               "mxint8",
                               "mxfp6_e2m3",
                               "mxfp6_e3m2",
                               "mxfp8_e4m3",
                               "mxfp8_e5m2",
                               "e3m0 block=32 scale=e8m0 rule=ceil",
                               "int4 block=32 scale=f32",
                               "int4 block=32 scale=e8m0",
                               "int4 block=32 scale=e8m0 offset=int",
                               "mxfp4 offset=fp16",
                               "e4m3",
                               "bf16"};

TEST(Diffuse, EqualsADirectCastBitForBitWhereInputsDoNotCorrelate) {
  constexpr std::int64_t n = 19, k = 75;
  for (const char* text : formats) {
    SCOPED_TRACE(text);
    const auto w = normals(n * k, 3, 0.02f);
    const Quantizer q = parse_quantizer(text);
    EXPECT_EQ(diffuse(w.data(), n, k, q, identity(k)).values, cast_directly(w.data(), n, k, q));
  }
}

TEST(Diffuse, GivesNumbersThatTheFormatRoundsToThemselves) {
  constexpr std::int64_t n = 33, k = 75, rows = 200;
  for (const char* text : formats)
    for (unsigned seed = 1; seed <= 8; ++seed) {
      SCOPED_TRACE(fmt::format("{} seed {}", text, seed));
      const auto x = correlated(rows, k, seed, 0.97f), w = normals(n * k, seed + 20, 0.02f);
      const Quantizer q = parse_quantizer(text);
      const auto result = diffuse(w.data(), n, k, q, error_paths(gram_of(x, k), 0.01));
      EXPECT_EQ(result.moved, 0);
      const auto again = cast_directly(result.values.data(), n, k, q);
      if (q.scale != ScaleKind::f32 && !q.has_tensor_scale()) {
        EXPECT_EQ(again, result.values);
        continue;
      }
      for (std::size_t i = 0; i < again.size(); ++i)  // an f32 scale derived again is off in its last bits
        EXPECT_NEAR(again[i], result.values[i], 0x1p-20f * std::abs(again[i]));
    }
}

TEST(Diffuse, KeepsTheLargestWeightOfATensorThatItsScaleComesFrom) {
  constexpr std::int64_t n = 4, k = 64, rows = 200, largest = 2 * k + 48;  // the first of its block
  for (unsigned seed = 1; seed <= 40; ++seed) {
    SCOPED_TRACE(seed);
    const auto x = correlated(rows, k, seed);
    auto w = normals(n * k, seed + 20, 0.03f);
    for (const float v : w) w[largest] = std::max(w[largest], 1.02f * std::abs(v));
    const auto result = diffuse(w.data(), n, k, nvfp4, error_paths(gram_of(x, k), 0.01));
    EXPECT_NEAR(result.values[largest], w[largest], 0x1p-20f * w[largest]);
    EXPECT_EQ(result.moved, 0);
  }
}

TEST(Diffuse, SaysHowManyValuesAScaleThatIsNotOfTheLargestMagnitudeMoves) {
  constexpr std::int64_t n = 16, k = 64;
  const auto x = correlated(128, k, 1), w = normals(n * k, 2);
  const Quantizer q = parse_quantizer("int4 block=32 scale=f32 statistic=rms");
  const auto result = diffuse(w.data(), n, k, q, error_paths(gram_of(x, k), 0.01));
  const auto again = cast_directly(result.values.data(), n, k, q);
  std::int64_t moved = 0;
  for (std::size_t i = 0; i < again.size(); ++i) moved += again[i] != result.values[i];
  EXPECT_GT(moved, 0);
  EXPECT_EQ(result.moved, moved);
}

TEST(Diffuse, CastsDeadInputsDirectlyAndLetsTheOthersBe) {
  constexpr std::int64_t n = 8, k = 64, rows = 128;
  auto x = correlated(rows, k, 4);
  const std::vector<std::int64_t> dead{0, 7, 40, 63};
  for (std::int64_t r = 0; r < rows; ++r)
    for (const auto j : dead) x[std::size_t(r * k + j)] = 0;
  const auto w = normals(n * k, 5);
  const Gram gram = gram_of(x, k);
  EXPECT_EQ(gram.dead(), 4);
  for (const double damping : {0.0, 0.01}) {
    const auto result = diffuse(w.data(), n, k, bf16_cast, error_paths(gram, damping));
    for (std::int64_t r = 0; r < n; ++r)
      for (const auto j : dead) {
        const auto i = std::size_t(r * k + j);
        EXPECT_EQ(result.values[i], to_f32(to_bf16(w[i])));
      }
  }
  const auto all_dead = diffuse(w.data(), n, k, mxfp4, error_paths(Gram(k), 0));
  EXPECT_EQ(all_dead.values, cast_directly(w.data(), n, k, mxfp4));
}

TEST(Diffuse, GivesTheSameBitsAtAnyNumberOfThreads) {
  constexpr std::int64_t n = 70, k = 150;
  const auto x = correlated(300, k, 6), w = normals(n * k, 7);
  const int before = threads();
  std::vector<std::vector<float>> results;
  for (const int count : {1, 2, 3}) {
    set_threads(count);
    results.push_back(diffuse(w.data(), n, k, nvfp4, error_paths(gram_of(x, k), 0.01)).values);
  }
  set_threads(before);
  EXPECT_EQ(results[1], results[0]);
  EXPECT_EQ(results[2], results[0]);
}

void expect_error(ExitCode code, const std::string& text, const std::function<void()>& work) {
  try {
    work();
    ADD_FAILURE() << "no error; want: " << text;
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), code) << e.what();
    EXPECT_NE(std::string(e.what()).find(text), std::string::npos) << e.what();
  }
}

TEST(Diffuse, RefusesNumbersThatAreNotFiniteAndScalesOfManyBlocks) {
  constexpr std::int64_t k = 32;
  auto w = normals(2 * k, 1);
  expect_error(ExitCode::usage, "outer=tensor",
               [&] { diffuse(w.data(), 2, k, parse_quantizer("nvfp4 outer=axis"), identity(k)); });
  w[k + 3] = std::numeric_limits<float>::quiet_NaN();
  expect_error(ExitCode::diverged, "its weight holds nan at [1, 3]",
               [&] { diffuse(w.data(), 2, k, mxfp4, identity(k)); });
}

TEST(Gram, AddsUpProductsInDouble) {
  constexpr std::int64_t k = 200, rows = 300;  // more than a tile, more than a part
  const auto x = normals(rows * k, 1);
  Gram gram(k);
  gram.add(x.data(), 100);
  gram.add(x.data() + 100 * k, rows - 100);
  EXPECT_EQ(gram.rows(), rows);
  for (std::int64_t i = 0; i < k; i += 7)
    for (std::int64_t j = 0; j < k; j += 3) {
      double sum = 0, magnitude = 0;
      for (std::int64_t r = 0; r < rows; ++r) {
        const double product = double(x[std::size_t(r * k + i)]) * double(x[std::size_t(r * k + j)]);
        sum += product, magnitude += std::abs(product);
      }
      // Products of floats are exact in double; sums in any order: Higham, section 3.1.
      EXPECT_NEAR(gram.sums()[std::size_t(i * k + j)], sum, 2 * rows * 0x1p-53 * magnitude);
    }
}

TEST(Gram, ItsErrorPathsAreAFactorOfTheInverse) {
  constexpr std::int64_t k = 30;
  const Gram gram = gram_of(correlated(90, k, 2), k);
  const auto u = error_paths(gram, 0.05);
  Matrix damped(k, std::vector<double>(k));
  double mean = 0;
  for (std::int64_t i = 0; i < k; ++i) mean += gram.sums()[std::size_t(i * k + i)] / k;
  for (std::int64_t i = 0; i < k; ++i)
    for (std::int64_t j = 0; j < k; ++j)
      damped[std::size_t(i)][std::size_t(j)] =
          gram.sums()[std::size_t(i * k + j)] + (i == j ? 0.05 * mean : 0);
  const Matrix wanted = inverse(damped);
  for (std::int64_t i = 0; i < k; ++i)
    for (std::int64_t j = 0; j < k; ++j) {
      double product = 0;
      for (std::int64_t m = 0; m < k; ++m) product += u[std::size_t(m * k + i)] * u[std::size_t(m * k + j)];
      // The condition number is below 1e3: 1e3 * k * 2^-53 of the largest entry.
      EXPECT_NEAR(product, wanted[std::size_t(i)][std::size_t(j)], 1e-11 * wanted[0][0]);
      if (j < i) {
        EXPECT_EQ(u[std::size_t(i * k + j)], 0);
      }
    }
}

TEST(Gram, RefusesInputsThatAreNotFiniteOrNotToldApart) {
  constexpr std::int64_t k = 16;
  auto x = normals(8 * k, 1);  // 8 rows cannot tell 16 inputs apart
  expect_error(ExitCode::usage, "do not tell its 16 inputs apart", [&] { error_paths(gram_of(x, k), 0); });
  EXPECT_NO_THROW(error_paths(gram_of(x, k), 0.01));
  x[5] = std::numeric_limits<float>::infinity();
  expect_error(ExitCode::diverged, "not finite", [&] { error_paths(gram_of(x, k), 0.01); });
}

}  // namespace
}  // namespace mxtape::test
