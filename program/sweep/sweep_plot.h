#pragma once
#include <filesystem>
#include <string>

#include "program/sweep/sweep_results.h"

namespace mxtape {

/// Gnuplot scripts: gaps with the 95 % interval of their mean as whiskers; validation losses with the range
/// of the seeds as bands of the baseline and of the arm with the largest gap.
std::string gap_script(const SweepPlan&, const SweepResults&, const std::string& terminal,
                       const std::filesystem::path& output);
std::string loss_script(const SweepPlan&, const SweepResults&, const std::string& terminal,
                        const std::filesystem::path& output);

}  // namespace mxtape
