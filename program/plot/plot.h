#pragma once
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "program/records/run_log.h"
#include "program/show/report.h"

namespace mxtape {

/// Steps that share a point of a training curve of about `points` points: single steps jump about by more
/// than two runs differ.
std::int64_t steps_per_point(std::span<const RunLog>, std::int64_t points = 160);

/// Loss curves as a gnuplot script: training faint, validation bold with its last value in the key, floors
/// dashed. `terminal` is gnuplot's, "svg" or "pngcairo"; `title` may be empty.
std::string gnuplot_script(std::span<const RunLog>, const std::string& terminal,
                           const std::filesystem::path& output, const std::string& title);

/// One line a run: last validation loss, perplexity, floor and gap where known, speed. `beside_names`: for
/// people; empty, or of each run.
Table summary_table(std::span<const RunLog>, const std::vector<std::string>& beside_names = {});

/// Where runs have different data, what stands behind each one's name: " (demo.h5, 60 tokens)". Else, and of
/// a run without a recipe beside its records, nothing. `runs`: folders, or metrics files.
std::vector<std::string> data_beside_names(const std::vector<std::string>& runs);

/// A line for people if some of these say something: losses of other texts share an axis, and mean something
/// else.
std::string remark_on_data(const std::vector<std::string>& data_beside_names);

}  // namespace mxtape
