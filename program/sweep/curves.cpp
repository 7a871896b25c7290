#include "program/sweep/curves.h"

#include <algorithm>

namespace mxtape {
namespace {

using Values = std::map<std::int64_t, std::vector<double>>;

void add(Values& values, const std::vector<RunLog::Point>& points) {
  for (const auto& point : points) values[point.step].push_back(point.loss);
}

/// The steps that have a value of each of `runs` runs.
BandCurve curve_of(const Values& values, std::size_t runs,
                   BandPoint point(std::int64_t, const std::vector<double>&)) {
  BandCurve curve;
  for (const auto& [step, of_runs] : values)
    if (of_runs.size() == runs) curve.push_back(point(step, of_runs));
  return curve;
}

BandPoint mean_with_interval(std::int64_t step, const std::vector<double>& gaps) {
  const PairedGap gap = paired_gap(gaps, 1);
  if (gap.pairs == 1) return {step, gap.mean, gap.mean, gap.mean};
  return {step, gap.mean, gap.interval95[0], gap.interval95[1]};
}

BandPoint mean_with_range(std::int64_t step, const std::vector<double>& losses) {
  const auto [low, high] = std::ranges::minmax(losses);
  return {step, mean(losses), low, high};
}

}  // namespace

std::vector<RunPair> pairs_of(const Logs::value_type& arm, const Logs::value_type& baseline) {
  std::vector<RunPair> pairs;
  for (const auto& [seed, log] : arm)
    if (const auto other = baseline.find(seed); other != baseline.end())
      pairs.push_back({log, other->second});
  return pairs;
}

BandCurve validation_curve(std::span<const RunLog> runs) {
  Values values;
  for (const RunLog& run : runs) add(values, run.validation);
  return curve_of(values, runs.size(), mean_with_range);
}

BandCurve gaps_of(std::span<const RunPair> pairs, std::vector<RunLog::Point> RunDifference::*losses,
                  std::int64_t width) {
  Values values;
  for (const RunPair& pair : pairs) add(values, difference(pair.arm, pair.baseline, width).*losses);
  return curve_of(values, pairs.size(), mean_with_interval);
}

std::vector<double> gaps_after(std::span<const RunPair> pairs, std::int64_t step, std::int64_t count) {
  std::vector<double> gaps;
  for (const RunPair& pair : pairs) {
    double sum = 0;
    std::int64_t found = 0;
    for (const auto& point : difference(pair.arm, pair.baseline, 1).training)
      if (point.step > step && point.step <= step + count) sum += point.loss, ++found;
    if (found < count) return {};
    gaps.push_back(sum / double(count));
  }
  return gaps;
}

}  // namespace mxtape
