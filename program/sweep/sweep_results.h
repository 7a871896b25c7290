#pragma once
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "program/records/paired_gap.h"
#include "program/records/run_log.h"
#include "program/show/report.h"
#include "program/sweep/sweep_plan.h"
#include "train/high_loss.h"

namespace mxtape {

/// A point of a curve over seeds. Of gaps, [low, high] is the 95 % interval of the mean; of losses, the
/// range.
struct BandPoint {
  std::int64_t step;
  double mean, low, high;
};
using BandCurve = std::vector<BandPoint>;

/// The runs of two arms with the same seed.
struct RunPair {
  RunLog arm, baseline;
};

/// Validation losses, at the steps that all runs have.
BandCurve validation_curve(std::span<const RunLog>);
/// Gaps of the validation loss, at the steps that all runs have.
BandCurve validation_gaps(std::span<const RunPair>);
/// Gaps of the training loss in windows of `width` steps.
BandCurve training_gaps(std::span<const RunPair>, std::int64_t width);
/// The gap of the training loss over the `count` steps after `step`, by pair; empty if a run lacks them.
std::vector<double> gaps_after(std::span<const RunPair>, std::int64_t step, std::int64_t count);

struct RunResult {
  std::uint64_t seed = 0;
  RunState state = RunState::fresh;
  std::optional<double> loss;      ///< of the last validation [nats per token]
  std::optional<double> ms;        ///< median of a step
  std::optional<double> peak_mib;  ///< of the process
  std::optional<double> seconds;   ///< of the process
  int threads = 0;                 ///< of the process; 0: not known
  std::string folder, message;     ///< of a failure
  int code = 0;
  std::vector<std::pair<std::int64_t, LossSpike::Spike>> spikes;  ///< of the training loss, by step
};

/// What a change of formats costs at once: the gap of the training loss in the steps after it.
struct SwitchCost {
  std::int64_t step = 0, steps = 0;
  PairedGap gap;
};

struct ArmResult {
  std::string name;
  std::vector<std::string> differences;  ///< of its recipe from the baseline's: "optim.beta2: 0.99 -> 0.95"
  std::vector<RunResult> runs;
  std::optional<double> mean_loss;
  std::optional<double> ms, peak_mib;  ///< median over the runs; most of them
  std::optional<PairedGap> gap;        ///< none: the baseline, or no pair of finished runs
  std::string reason;                  ///< why there is no gap, or no verdict
  std::vector<SwitchCost> switches;
  BandCurve validation, validation_gap, training_gap;
};

struct SweepResults {
  std::vector<ArmResult> arms;  ///< in the order of the file
  bool complete = false;        ///< all runs are finished
  double resolvable = 0;        ///< resolvable_gap() of the arms; infinite if not known
  std::optional<double> data_floor;
  std::int64_t window = 1;  ///< steps of a point of the training gaps

  /// Indices of the arms: baseline first, then by gap, those without one last.
  std::vector<std::size_t> sorted(const std::string& baseline) const;
  /// The arm with the largest gap; the baseline if none has one.
  std::size_t worst(const std::string& baseline) const;
};

/// Reads the records of all finished runs.
SweepResults collect_results(const SweepPlan&);

/// Why the finished pairs of so many seeds give no verdict; empty: they do.
std::string no_verdict_because(std::size_t pairs, std::size_t seeds, bool baseline_blew_up);
/// "seed 1 at step 10 (unlearned: 146 %)": the spikes of an arm's runs; empty: there are none.
std::string spikes_text(const ArmResult&);
/// "within", or "not resolved: 1 of 3 runs is not finished".
std::string verdict_text(const ArmResult&);
/// The table that is printed; `width` of Table::text().
std::string results_table(const SweepPlan&, const SweepResults&, std::size_t width);
Value value_of(const SweepPlan&, const SweepResults&);
/// One line a run: arm, seed, state, loss, gap to the baseline, ms, peak_mib, seconds.
std::string results_csv(const SweepPlan&, const SweepResults&);

/// One page of HTML that is also well-formed XML: table by gap, the pictures (SVG), each arm's differences.
/// It asks for nothing from anywhere: no script, no file, no network. Numbers are shown with four digits and
/// held with all of them, as <data value="...">, the text that results.json has.
std::string report_html(const SweepPlan&, const SweepResults&, const std::vector<std::string>& pictures);

/// Of such pages: the style sheet; a text; what is shown, around what is meant.
extern const std::string_view report_style;
std::string html_escaped(std::string_view text);
std::string html_number(double value, const std::string& shown);

/// Gnuplot scripts: gaps with the 95 % interval of their mean as whiskers; validation losses with the range
/// of the seeds as bands of the baseline and of the arm with the largest gap.
std::string gap_script(const SweepPlan&, const SweepResults&, const std::string& terminal,
                       const std::filesystem::path& output);
std::string loss_script(const SweepPlan&, const SweepResults&, const std::string& terminal,
                        const std::filesystem::path& output);

}  // namespace mxtape
