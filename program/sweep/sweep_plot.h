#pragma once
#include <filesystem>
#include <string>

#include "program/sweep/sweep_results.h"

namespace mxtape {

/// Gnuplot scripts with a band behind each curve: gaps with the 95 % interval of their mean, validation
/// losses with the range of the seeds.
std::string gap_script(const SweepPlan&, const SweepResults&, const std::string& terminal,
                       const std::filesystem::path& output);
std::string loss_script(const SweepPlan&, const SweepResults&, const std::string& terminal,
                        const std::filesystem::path& output);

}  // namespace mxtape
