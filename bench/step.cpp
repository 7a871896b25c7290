// Times whole training steps (Trainer::step: batches, forward, backward, strands' sums, AdamW, weight copies)
// of several recipes in turn, A B C A B C ..., and prints medians and ratios to the first: a ratio survives a
// noisy machine, an absolute time does not.
//
//   bench_step shakespeare-6x384-bf16 shakespeare-6x384-mxfp4 --vocabulary 65 --rounds 7 --steps 3
//   bench_step --precisions demo-bf16 shakespeare-bf16     # each shipped precision in turn with each of
//   these models
//
// Data are random tokens: a step's work does not depend on them. Peak memory is that of the process, so it
// means something only with one recipe.
#include <fmt/format.h>
#include <time.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <vector>

#include "core/memory/resident.h"
#include "core/parallel.h"
#include "kernels/choose/make_backend.h"
#include "recipes/shipped.h"
#include "train/trainer.h"

namespace {

using namespace mxtape;

/// Of which clock: a busy machine takes time from a step, but little of the processor's time in it.
double seconds(clockid_t clock) {
  timespec t;
  clock_gettime(clock, &t);
  return double(t.tv_sec) + 1e-9 * double(t.tv_nsec);
}

Recipe with_vocabulary(Recipe r, std::int64_t vocabulary) {
  if (r.model.vocabulary == 0) r.model.vocabulary = vocabulary;
  return r;
}

/// Enough random tokens for windows that differ from step to step.
TokenFile random_tokens(const Recipe& recipe) {
  const DrawKey key{.seed = recipe.seed, .purpose = Purpose::data_order};
  std::vector<std::int32_t> draws(static_cast<std::size_t>(64 * (recipe.model.context + 1)));
  for (std::size_t i = 0; i < draws.size(); ++i)
    draws[i] = std::int32_t(key.bits32(i) % recipe.model.vocabulary);
  TokenFile file;
  file.tokenizer =
      Tokenizer::from_text(Tokenizer::Kind::characters, " ");  // of one token: any vocabulary does
  file.train = Split::from_tokens(draws, recipe.model.vocabulary);
  return file;
}

/// One recipe's training run, on random tokens.
class Run {
 public:
  Run(const Recipe& recipe, std::int64_t vocabulary)
      : recipe_(with_vocabulary(recipe, vocabulary)),
        data_(random_tokens(recipe_)),
        backend_(make_backend(recipe_.compute.device, recipe_.compute.options())),
        trainer_(*backend_, recipe_, data_) {}

  /// Memory is planned, the step recorded, libraries have chosen; then others may have what it does not keep.
  void warm_up() {
    for (int i = 0; i < 4; ++i) step();
    backend_->trim();
  }

  /// Waits for the device.
  void step() { trainer_.step(); }

  /// Operations of a step: 6 N per token for N parameters that multiply (positions do not; a token's
  /// embedding does if the head is tied to it), and 6 L C T for the causal half of attention, llm.c's
  /// convention.
  double flops() const {
    const ModelConfig& m = recipe_.model;
    const std::int64_t positions = m.positions == Positions::learned ? m.context * m.width : 0;
    const double multiplied =
        double(parameter_count(m) - positions - (m.tied_head ? 0 : m.vocabulary * m.width));
    const std::int64_t heads = m.heads * m.head_channels();
    return (6 * multiplied + 6.0 * double(m.layers * heads * m.context)) * double(tokens_per_step());
  }

  const Recipe& recipe() const { return recipe_; }
  std::int64_t tokens_per_step() const { return trainer_.recipe().tokens_per_step(); }
  std::string device() const { return backend_->description(); }
  std::int64_t peak_bytes() const { return backend_->peak_bytes(); }

 private:
  Recipe recipe_;
  TokenFile data_;
  std::unique_ptr<Backend> backend_;
  Trainer trainer_;
};

double median(std::vector<double> v) {
  std::nth_element(v.begin(), v.begin() + std::ptrdiff_t(v.size() / 2), v.end());
  return v[v.size() / 2];
}

struct Settings {
  std::vector<std::string> overrides;
  std::int64_t vocabulary = 65;
  int rounds = 5, steps = 3;
  clockid_t clock = CLOCK_MONOTONIC;
};
using Runs = std::vector<std::unique_ptr<Run>>;

/// Seconds of a step, by run and round.
std::vector<std::vector<double>> times_in_turn(const Runs& runs, const Settings& settings) {
  for (const auto& run : runs) run->warm_up();
  std::vector<std::vector<double>> times(runs.size());
  for (int round = 0; round < settings.rounds; ++round)
    for (std::size_t r = 0; r < runs.size(); ++r) {
      const double start = seconds(settings.clock);
      for (int i = 0; i < settings.steps; ++i) runs[r]->step();
      times[r].push_back((seconds(settings.clock) - start) / settings.steps);
    }
  return times;
}

/// Round by round, over the first run's.
std::vector<double> ratios_to_first(const std::vector<std::vector<double>>& times, std::size_t run) {
  std::vector<double> ratios;
  for (std::size_t i = 0; i < times[run].size(); ++i) ratios.push_back(times[run][i] / times[0][i]);
  return ratios;
}

/// The table of docs/benchmarks.md. Two runs are in memory at a time.
void print_precisions(const std::vector<std::string>& models, const Settings& settings) {
  fmt::print("| precision | {} |\n|---|{}\n", fmt::join(models, " | "),
             fmt::join(std::vector<std::string>(models.size(), "---|"), ""));
  for (const ShippedRecipe& shipped : shipped_recipes()) {
    if (!shipped.name.starts_with("precision/")) continue;
    fmt::print("| `{}` |", shipped.name.substr(10));
    for (const std::string& model : models) {
      const Recipe base = read_recipe(model, settings.overrides);
      Runs runs;
      for (const Recipe& recipe :
           {base, read_recipe_onto(base, std::string(shipped.name), settings.overrides)})
        runs.push_back(std::make_unique<Run>(recipe, settings.vocabulary));
      const auto ratios = ratios_to_first(times_in_turn(runs, settings), 1);
      const auto [low, high] = std::minmax_element(ratios.begin(), ratios.end());
      fmt::print(" {:.2f} ({:.2f} to {:.2f}); {:.2f} |", median(ratios), *low, *high,
                 double(runs[1]->peak_bytes()) / double(runs[0]->peak_bytes()));
      std::fflush(stdout);
    }
    fmt::print("\n");
  }
}

void measure(const std::vector<std::string>& names, const Settings& settings, bool json) {
  Runs runs;
  for (const auto& name : names)
    runs.push_back(std::make_unique<Run>(read_recipe(name, settings.overrides), settings.vocabulary));
  const auto times = times_in_turn(runs, settings);

  const double peak_mib = double(most_resident_bytes()) / 0x1p20;
  if (json) {
    const auto [low, high] = std::minmax_element(times[0].begin(), times[0].end());
    fmt::print("{{\"name\": \"{}\", \"median_ms\": {}, \"min_ms\": {}, \"max_ms\": {}, \"peak_mib\": {}}}\n",
               names[0], 1e3 * median(times[0]), 1e3 * *low, 1e3 * *high, peak_mib);
    return;
  }
  fmt::print("{}; {} rounds of {} steps, in turn; peak resident memory {:.0f} MiB\n", runs[0]->device(),
             settings.rounds, settings.steps, peak_mib);
  fmt::print("{:<34} {:>9} {:>9} {:>9} {:>9} {:>8} {:>7} {:>11}\n", "recipe", "median ms", "min", "max",
             "tok/s", "TFLOP/s", "ratio", "tensors MiB");
  for (std::size_t r = 0; r < runs.size(); ++r) {
    const double middle = median(times[r]);
    fmt::print("{:<34} {:>9.2f} {:>9.2f} {:>9.2f} {:>9.0f} {:>8.3f} {:>7.3f} {:>11.1f}\n", names[r],
               1e3 * middle, 1e3 * *std::min_element(times[r].begin(), times[r].end()),
               1e3 * *std::max_element(times[r].begin(), times[r].end()),
               double(runs[r]->tokens_per_step()) / middle, runs[r]->flops() / middle / 1e12,
               median(ratios_to_first(times, r)), double(runs[r]->peak_bytes()) / 0x1p20);
  }
}

}  // namespace

int main(int argc, char** argv) {
  std::vector<std::string> names;
  Settings settings;
  int thread_count = 0;
  bool json = false, precisions = false, processor_time = false;
  CLI::App app{"times training steps of recipes in turn"};
  app.add_option("recipes", names, "recipe names or files; ratios are to the first")->required();
  app.add_option("--set", settings.overrides, "overrides for all recipes, e.g. train.batch_size=4");
  app.add_option("--vocabulary", settings.vocabulary, "where the recipe takes it from its data")
      ->check(CLI::PositiveNumber);
  app.add_option("--rounds", settings.rounds, "rounds to take the median of")->check(CLI::PositiveNumber);
  app.add_option("--steps", settings.steps, "steps a round")->check(CLI::PositiveNumber);
  app.add_option("--threads", thread_count, "0: all");
  app.add_flag("--json", json, "one recipe, one line for bench/peers/in_turn.py");
  app.add_flag("--processor-time", processor_time,
               "of all threads, instead of the time that passes: for a busy machine, with --threads 1");
  app.add_flag("--precisions", precisions,
               "each shipped precision beside each recipe as it is: a Markdown table of its step time and of "
               "its tensors' peak "
               "memory, over the recipe's");
  CLI11_PARSE(app, argc, argv);
  try {
    require(!json || (names.size() == 1 && !precisions), ExitCode::usage,
            "--json takes one recipe, found {}{}", names.size(), precisions ? " and --precisions" : "");
    if (processor_time) settings.clock = CLOCK_PROCESS_CPUTIME_ID;
    if (thread_count > 0) set_threads(thread_count);
    precisions ? print_precisions(names, settings) : measure(names, settings, json);
  } catch (const Error& e) {
    fmt::print(stderr, "bench_step: {}\n", e.what());
    return int(e.code());
  }
  return 0;
}
