#pragma once
#include <array>

#include "program/sweep/results.h"
#include "tests/program/referee/law_losses.h"

namespace mxtape::referee::test {

inline constexpr ScalingLaw page_law{
    .A = 100, .alpha = 0.5, .B = 300, .beta = 0.45, .gamma = 0.9, .floor = 0.3238};
inline constexpr std::array page_eff_n{1.0, 0.95, 0.8}, page_eff_d{1.0, 0.9, 0.6};

/// Three arms, two of them a family, with three seeds at three sizes and lengths. A seed adds its share to
/// all losses of a point, and a tenth of it more to each arm's, in turn with the arms. `bend`: what the
/// baseline's losses have of a wave that no law has.
inline Results results(double bend = 0) {
  Results r;
  r.asked.name = "four <bits>", r.asked.baseline = "bf16", r.asked.tolerance = 0.001;
  r.asked.select = {1, 2, 3}, r.asked.lengths = {20, 40, 80};
  r.asked.contrasts = {{"mxfp4 - bf16 - mxfp8 + bf16", {2, 0, 1, 0}, {1, -1, -1, 1}}};
  for (const char* name : {"bf16", "mxfp8", "mxfp4"}) {
    Arm arm;
    arm.name = name, arm.family = name[0] == 'm' ? "mx" : "", arm.bits = 4.25;
    arm.differences = {fmt::format("precision.forward: bf16 -> {}", name)};
    r.arms.push_back(arm);
  }
  for (const std::int64_t n : {24576, 98304, 393216}) {
    for (const double ratio : r.asked.lengths)
      r.points.push_back({.name = fmt::format("{} x {}", n, ratio),
                          .size = r.sizes.size(),
                          .parameters = n,
                          .tokens_per_parameter = ratio,
                          .tokens = std::int64_t(ratio) * n,
                          .steps = 100});
    r.sizes.push_back({.name = fmt::format("n{}", n), .parameters = n});
  }
  r.floor = page_law.floor, r.complete = true;
  for (std::size_t p = 0; p < r.points.size(); ++p) {
    const Point& point = r.points[p];
    for (std::size_t arm = 0; arm < 3; ++arm)
      for (const std::uint64_t seed : r.asked.select) {
        const double share = 0.002 * (double(seed) - 2) * (1 + 0.1 * double((seed + arm) % 3));
        Run run{.point = p, .arm = arm, .seed = seed, .state = "finished"};
        run.loss =
            loss(page_law, double(point.parameters), double(point.tokens), page_eff_n[arm], page_eff_d[arm]) *
            std::exp(share + bend * std::sin(double(3 * p)));
        run.telemetry = Telemetry{{"fprop.x"}, {1 - page_eff_d[arm]}};
        r.runs.push_back(run);
      }
    for (const std::size_t arm : {1u, 2u}) {
      std::vector<double> gaps;
      for (std::size_t k = 0; k < 3; ++k)
        gaps.push_back(*r.losses(p, arm, Stage::select)[k] - *r.losses(p, 0, Stage::select)[k]);
      Gap gap{.point = p, .arm = arm, .gap = paired_gap(gaps, r.asked.tolerance)};
      gap.verdict = gap.gap.verdict;
      r.gaps.push_back(gap);
    }
  }
  return r;
}

}  // namespace mxtape::referee::test
