#pragma once
#include <array>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <span>
#include <string_view>
#include <vector>

namespace mxtape {

/// What paired seeds say of an arm.
enum class Verdict : std::uint8_t {
  within,       ///< shown to lie inside the tolerance, on both sides
  worse,        ///< shown to lie above the baseline, and not to be within
  better,       ///< shown to lie below it, and not to be within
  not_resolved  ///< none of these
};
inline constexpr std::array<std::string_view, 4> verdict_names{"within", "worse", "better", "not resolved"};
constexpr std::string_view name_of(Verdict verdict) { return verdict_names[std::size_t(verdict)]; }

/// How far an arm's losses lie above the baseline's, from n differences d_i with the same seed.
struct PairedGap {
  int pairs = 0;
  double mean = INFINITY;            ///< [nats per token]; infinite: of no pairs
  double standard_error = INFINITY;  ///< sqrt(sum (d_i - mean)^2 / (n (n - 1))); infinite: of one or none
  /// mean -+ t(0.95, n - 1) standard_error, and the same with 0.90.
  std::array<double, 2> interval95{-INFINITY, INFINITY}, interval90 = interval95;
  double p = INFINITY;  ///< of "no difference": two-sided paired t test; infinite: of one or none
  Verdict verdict = Verdict::not_resolved;
};

/// The verdict, in this order: `within` if two one-sided t tests at 5 % both reject a gap as large as the
/// tolerance, that is if interval95's narrower sibling, interval90, lies inside -+tolerance (Schuirmann
/// 1987); `worse` or `better` if interval95 does not hold 0; else `not resolved`. One difference resolves
/// nothing: its intervals are infinite, as is the mean of none. Differences that are all equal have a
/// standard error of 0.
PairedGap paired_gap(std::span<const double> differences, double tolerance);

/// The half width of interval95 for `pairs` differences whose standard deviation is the root mean square of
/// `deviations`: a measured mean above it is told from 0. Infinite for one pair.
double resolvable_gap(std::span<const double> deviations, int pairs);

inline double mean(std::span<const double> x) {
  return std::accumulate(x.begin(), x.end(), 0.0) / double(x.size());
}
/// Of an even number the mean of the middle two; 0 of none.
double median(std::vector<double> values);

}  // namespace mxtape
