#pragma once

namespace mxtape {

/// P(|T| >= |t|), T being Student's t with `freedom` >= 1 degrees of freedom: I_x(freedom / 2, 1 / 2) with
/// x = freedom / (freedom + t^2), the incomplete beta function (Abramowitz & Stegun 26.5.27, 26.7.1).
/// Error below (4 freedom + 600) 2^-53: relative where t^2 >= freedom / 3, absolute elsewhere. That counts
/// the roundings of a power series of positive terms: at most 135 + freedom / 2 terms of three roundings.
double student_two_sided(double t, int freedom);

/// The t > 0 with P(|T| <= t) = confidence, 0 < confidence < 1. Its error is that of student_two_sided
/// divided by |d log P(|T| >= t) / d log t|, which is above 1/2 for confidences from 0.8 on.
double student_quantile(double confidence, int freedom);

}  // namespace mxtape
