#include "program/records/paired_gap.h"

#include <algorithm>

#include "core/student_t.h"

namespace mxtape {

PairedGap paired_gap(std::span<const double> differences, double tolerance) {
  const double n = double(differences.size());
  PairedGap gap;
  gap.pairs = int(differences.size());
  if (gap.pairs == 0) return gap;
  gap.mean = mean(differences);
  if (gap.pairs == 1) return gap;
  double squares = 0;
  for (const double d : differences) squares += (d - gap.mean) * (d - gap.mean);
  gap.standard_error = std::sqrt(squares / (n * (n - 1)));
  const auto interval = [&](double confidence) {
    const double half = student_quantile(confidence, gap.pairs - 1) * gap.standard_error;
    return std::array{gap.mean - half, gap.mean + half};
  };
  gap.interval95 = interval(0.95), gap.interval90 = interval(0.90);
  if (gap.standard_error > 0)
    gap.p = student_two_sided(gap.mean / gap.standard_error, gap.pairs - 1);
  else
    gap.p = gap.mean == 0 ? 1 : 0;
  if (gap.interval90[0] > -tolerance && gap.interval90[1] < tolerance)
    gap.verdict = Verdict::within;
  else if (gap.interval95[0] > 0)
    gap.verdict = Verdict::worse;
  else if (gap.interval95[1] < 0)
    gap.verdict = Verdict::better;
  return gap;
}

double resolvable_gap(std::span<const double> deviations, int pairs) {
  if (pairs < 2 || deviations.empty()) return INFINITY;
  double squares = 0;
  for (const double deviation : deviations) squares += deviation * deviation;
  const double deviation = std::sqrt(squares / double(deviations.size()));
  return student_quantile(0.95, pairs - 1) * deviation / std::sqrt(double(pairs));
}

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + std::ptrdiff_t(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return values.size() % 2 ? *middle : (*middle + *std::max_element(values.begin(), middle)) / 2;
}

}  // namespace mxtape
