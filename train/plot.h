#pragma once
#include <filesystem>
#include <span>
#include <string>

#include "train/run_log.h"

namespace mxtape {

/// Loss curves as a gnuplot script: training faint, validation bold with its last value in the key, floors
/// dashed. `terminal` is gnuplot's, "svg" or "pngcairo"; `title` may be empty.
std::string gnuplot_script(std::span<const RunLog>, const std::string& terminal,
                           const std::filesystem::path& output, const std::string& title);

/// Writes `<stem>.svg` and `<stem>.png`, each beside and then renamed. Throws Error(resource) with the line
/// that installs gnuplot if there is none.
void plot_losses(std::span<const RunLog>, const std::filesystem::path& stem, const std::string& title);

/// One line a run: last validation loss, perplexity, floor and gap where known, speed.
std::string summary_table(std::span<const RunLog>);

}  // namespace mxtape
