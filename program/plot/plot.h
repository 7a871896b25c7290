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

/// Means over `width` points each, at the middle of their steps.
std::vector<RunLog::Point> thinned(const std::vector<RunLog::Point>&, std::int64_t width);

/// Loss curves as a gnuplot script: training faint, validation bold with its last value in the key, floors
/// dashed. `terminal` is gnuplot's, "svg" or "pngcairo"; `title` may be empty; `level`: a loss, at which each
/// run has a ring where it is first there.
std::string gnuplot_script(std::span<const RunLog>, const std::string& terminal,
                           const std::filesystem::path& output, const std::string& title,
                           std::optional<double> level = {});

/// One line a run: last validation loss, perplexity, floor and gap where known, speed. `beside_names`: for
/// people; empty, or of each run.
Table summary_table(std::span<const RunLog>, const std::vector<std::string>& beside_names = {});

/// Where runs have different data, what stands behind each one's name: " (demo.h5, 60 tokens)". Else, and of
/// a run without a recipe beside its records, nothing. `runs`: folders, or metrics files.
std::vector<std::string> data_beside_names(const std::vector<std::string>& runs);

/// A line for people if some of these say something: losses of other texts share an axis, and mean something
/// else.
std::string remark_on_data(const std::vector<std::string>& data_beside_names);

/// A run's losses less those of a base run, at the steps that both have.
struct RunDifference {
  std::string name, base;
  std::int64_t shared_steps = 0, last_step = 0;  ///< of training: their number, and the last one
  std::vector<RunLog::Point> training;           ///< means over windows of the same steps, at their middle
  std::vector<RunLog::Point> validation;         ///< at the steps where both were validated
  /// At the last of these; 0 without one.
  double validation_loss = 0, base_validation_loss = 0;
};

/// `width`: steps of a window, but of the first, so that the last is whole. Throws Error(data) if the two
/// share no step.
RunDifference difference(const RunLog& run, const RunLog& base, std::int64_t width);

/// The gaps as a gnuplot script: zero is the base; training faint, validation bold with its last gap in the
/// key. `title` may be empty: then it is the run's name and the base's.
std::string difference_script(std::span<const RunDifference>, std::int64_t width, const std::string& terminal,
                              const std::filesystem::path& output, const std::string& title);

/// One line a run: the last step where both were validated, both losses, their gap, and the gap of the last
/// window of training. `beside_names`: for people; empty, or of the base and of each run.
Table difference_table(std::span<const RunDifference>, std::int64_t window,
                       const std::vector<std::string>& beside_names = {});

}  // namespace mxtape
