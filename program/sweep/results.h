#pragma once
#include <algorithm>
#include <array>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "program/records/paired_gap.h"
#include "program/records/run_log.h"
#include "program/show/report.h"
#include "recipes/sweep/referee_file.h"

// What a sweep knows: what was asked, what was measured, and what follows. Values alone: results.json holds
// them all, under these names and in this order (results.cpp). Indices are into the lists of Results. A sweep
// without [points] has one size and one point, whose names are empty.
namespace mxtape::referee {

/// A number and its 95 % interval; `why` it has none.
struct Estimate {
  double value = 0;
  std::optional<std::array<double, 2>> interval95{};
  std::string why{};
};
/// The geometric mean of ratios with the same seed, from their logarithms: exp of paired_gap()'s mean and of
/// the ends of its interval95.
Estimate paired_ratio(std::span<const double> logarithms);

/// Arms are chosen on the seeds of `select` and judged on those of `confirm`; without these, on the first.
enum class Stage : std::uint8_t { select, confirm };

struct Arm {
  std::string name, family;                     ///< without a family: empty
  std::vector<std::string> differences, slots;  ///< from the baseline; "fprop.x mxfp4" of linear layers' six
  double bits = 0;                              ///< of an element, mean of the six, scales included
  bool chosen = false;                          ///< it is trained on the seeds of `confirm`
  std::string recipe;                           ///< with one point: resolved, as TOML
};
struct Spike {
  std::int64_t step = 0;
  double z = 0;
  std::optional<double> unlearned{};  ///< share of what was learned that it gave back, if it blew up
};
/// A validation on the way.
using Sample = RunLog::Point;
/// What the roundings of a run's last step cost.
struct Telemetry {
  std::vector<std::string> slots;
  std::vector<double> relative_error;  ///< by slot, root mean square over the layers
  std::optional<double>
      alignment{};  ///< cosine of the gradient of weights with the exact one, mean over layers
};
/// An arm with a seed at a point, with its trunk's steps.
struct Run {
  std::size_t point = 0, arm = 0;
  std::uint64_t seed = 0;
  Stage stage = Stage::select;
  std::string folder{};            ///< below the sweep's
  std::string state{}, message{};  ///< finished, unfinished, failed, to do; of a failure
  int code = 0;                    ///< exit code of its process
  std::optional<double> loss{};    ///< of the last validation [nats per token]
  double learning_rate = 0;        ///< at most
  std::vector<Sample> curve{};
  std::vector<Spike> spikes{};
  std::optional<Telemetry> telemetry{};
};

/// An arm beside the baseline at a point, on a stage's seeds.
struct Gap {
  std::size_t point = 0, arm = 0;
  Stage stage = Stage::select;
  PairedGap gap{};
  double holm = INFINITY;  ///< p, corrected together with the arms of its family at the point
  Verdict verdict = Verdict::not_resolved;
  std::string reason{};  ///< what kept it from a verdict
};
/// What a change of formats costs at once, with one point: the gap of the training loss in the steps after
/// it.
struct Switch {
  std::size_t arm = 0;
  std::int64_t step = 0, steps = 0;
  PairedGap jump{};
};
/// When an arm's runs first have a validation loss.
struct Reached {
  double loss = 0;
  std::size_t point = 0, arm = 0;
  Stage stage = Stage::select;
  std::int64_t runs = 0, never = 0;  ///< finished ones that have it, and that never do
  std::optional<double> mean{};      ///< steps or seconds, of the runs that have it
  std::optional<Estimate> ratio{};   ///< to the baseline's, seed by seed; none unless all seeds have it
};
struct ContrastResult {
  std::size_t contrast = 0, point = 0;
  Stage stage = Stage::select;
  PairedGap gap{};
  double holm = INFINITY;
  std::string reason{};
};

/// The tokens with which the baseline has the arm's loss, over the arm's: at one size over lengths.
/// Interpolated in their logarithm, never extrapolated.
struct Efficiency {
  std::size_t arm = 0, point = 0;
  Stage stage = Stage::select;
  std::optional<Estimate> ratio{};
  std::string why{};  ///< there is none
};

struct LawArm {
  std::size_t arm = 0;
  Estimate parameters{}, tokens{};  ///< effN, effD
  std::int64_t outside = 0;         ///< points at which the law's gap is far from the arm's, as judge() says
};
struct Residual {
  std::size_t arm = 0, point = 0;
  double measured = 0, fitted = 0;  ///< mean over the seeds [nats per token]
};
/// L(N, D) = (A / (effN N)^alpha + B / (effD D)^beta)^gamma + E; effN = effD = 1 for the baseline.
struct Law {
  bool fitted = false, holds = false;  ///< not fitted: the parameters are infinite, as is `worst`
  std::string why{};                   ///< not
  double A = INFINITY, alpha = INFINITY, B = INFINITY, beta = INFINITY, gamma = INFINITY, E = INFINITY;
  double limit = 0, worst = INFINITY;  ///< |L / law - 1| of the baseline's mean losses: allowed, found
  std::int64_t draws = 0;              ///< of the bootstrap
  std::vector<LawArm> arms{};
  std::vector<Residual> residuals{};

  bool holds_for(const LawArm& arm) const { return holds && arm.outside == 0; }
};
/// How many times as fast as the baseline's an arm's steps must be for it to have the same loss after the
/// same time.
struct BreakEven {
  std::size_t arm = 0;
  std::optional<Estimate> speed_up{};
  std::string from{}, why{};  ///< "law" or "tokens"; there is none
};
/// Over arms: does what roundings do predict the gap?
struct Correlation {
  std::string measure;
  std::size_t point = 0;
  std::int64_t arms = 0;
  Estimate rank{};  ///< Spearman's
};

/// A value that was tried at the smallest point.
struct Tuned {
  std::size_t arm = 0;
  double value = 0;
  std::optional<double> loss{};  ///< mean over the seeds
  std::int64_t runs = 0;
  bool best = false, edge = false;  ///< of the arm; and at the end of the list
};

/// An arm's step, as the runs took it, in which arms take turns by seed; the baseline has one too.
struct StepTime {
  Stage stage = Stage::select;
  std::size_t size = 0, arm = 0;
  double ms = 0;  ///< median over the runs of their medians
  /// Over the baseline's run of the same seed, median over the runs: what slows the machine for a while meets
  /// both.
  std::optional<double> ratio{};
  std::int64_t runs = 0;
};
struct RunTime {
  std::optional<double> ms{};                   ///< median of a step
  std::optional<double> peak_mib{}, seconds{};  ///< of its process, the last one if it was resumed
  std::optional<int> threads{};
};
/// What a clock said; all else is the same on each run.
struct Times {
  std::string device;
  int cores = 0, threads = 0;  ///< there; of a run
  std::vector<StepTime> steps;
  std::vector<RunTime> runs;        ///< as Results::runs
  std::vector<Reached> seconds_to;  ///< as Results::steps_to
  double seconds_of_runs = 0;
};

struct Results {
  Question asked;
  std::size_t baseline = 0;
  std::vector<Arm> arms;
  std::vector<ModelSize> sizes;
  std::vector<Point> points;  ///< by size, then by length

  // What ran.
  std::string version, commit, arithmetic;  ///< the last: libraries and instruction set
  std::string data_file, data_hash;
  std::optional<double> floor{};  ///< the data's entropy [nats per token]
  bool complete = false;
  std::int64_t tokens_trained = 0, tokens_apart = 0;  ///< so far, and if each length were trained anew

  // What was measured.
  std::vector<Tuned> tunes;
  std::vector<Run> runs;
  std::vector<Switch> switches;

  // What follows.
  std::vector<Gap> gaps;
  std::optional<double> resolvable_gap;  ///< resolvable_gap() of the largest point's
  std::vector<Reached> steps_to;
  std::vector<ContrastResult> contrast_results;
  std::vector<Efficiency> efficiencies;
  Law law;
  std::vector<BreakEven> break_even;
  std::vector<Correlation> correlations;
  std::vector<std::string> not_run;  ///< for people
  Times times;

  const auto& seeds(Stage stage) const { return stage == Stage::select ? asked.select : asked.confirm; }
  /// The one that verdicts are of.
  Stage judged() const { return asked.confirm.empty() ? Stage::select : Stage::confirm; }
  /// Whether the stage trains the arm; of `confirm` known once it has begun.
  bool is_planned(std::size_t arm, Stage stage) const { return stage == Stage::select || arms[arm].chosen; }
  bool has_points() const { return !asked.lengths.empty(); }
  /// The run of a seed; null: there is none.
  const Run* run(std::size_t point, std::size_t arm, Stage, std::uint64_t seed) const;
  const Gap* gap(std::size_t point, std::size_t arm, Stage) const;
  /// Of a step of an arm, on the seeds that verdicts are of; none if its runs took none.
  const StepTime* step_time(std::size_t size, std::size_t arm) const;
  /// Arms at a point: the baseline first, then by the gap of the stage that verdicts are of, those without
  /// one last.
  std::vector<std::size_t> sorted(std::size_t point) const;
  /// Of an arm at a point, by the stage's seeds; none where a run is not finished.
  std::vector<std::optional<double>> losses(std::size_t point, std::size_t arm, Stage) const;
  /// Whether a run of them gave back more than half of what it had learned.
  bool blew_up(std::size_t point, std::size_t arm, Stage) const;
  /// Why "pairs" or "runs" (`of`) of an arm give no verdict: too few, or `beside` blew up. Empty: they do.
  std::string why_open(std::size_t point, std::size_t arm, Stage, std::size_t finished, const char* of,
                       std::size_t beside) const;
  /// Every planned arm's gap at every point, each by itself: holm is p, until families are judged together.
  void add_gaps();
};

/// Null: none.
template <class T>
const T* first_of(const std::vector<T>& all, const auto& wanted) {
  const auto found = std::find_if(all.begin(), all.end(), wanted);
  return found == all.end() ? nullptr : &*found;
}

/// results.json: docs/sweeps.md names the fields. What a clock measured is in `times`, last.
Value value_of(const Results&);
/// Reads it back. Throws Error(data) naming file and field for what is not such a file, and Error(resource)
/// where it cannot be read.
Results read_results(const std::filesystem::path&);

/// The baseline may be off the law by this share where it is worst; beyond, the law does not hold.
inline constexpr double law_limit = 0.01;
/// From runs and gaps, what follows: Holm's correction, sums of arms, efficiencies, the law, break-even
/// speed-ups, and whether rounding errors predict the gaps. Losses at a point count if all seeds of the stage
/// have one, and none of the baseline's runs blew up. An arm has figures of the law if at each of its points
/// the law's gap is no further from the measured one than half its 95 % interval, held within 0.1 % of the
/// loss and law_limit: a gap may be so small that any law is that near.
void judge(Results&);
/// Of each loss of `steps_to`: when the arms' runs have it. Seconds are of as many steps as the run's median.
void add_steps_to(Results&);

}  // namespace mxtape::referee
