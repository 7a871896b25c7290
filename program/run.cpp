#include "program/run.h"

#include <fmt/ranges.h>

#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string_view>

#include "core/files/atomic_file.h"
#include "core/parallel.h"
#include "core/text/program_name.h"
#include "kernels/around/checked_backend.h"
#include "kernels/choose/make_backend.h"
#include "program/check.h"
#include "program/header.h"
#include "program/metrics/metrics.h"
#include "program/output.h"
#include "program/progress.h"
#include "program/resume.h"
#include "program/stop_signals.h"
#include "train/memory/memory_budget.h"
#include "train/sampling/sample.h"
#include "train/trainer.h"

namespace mxtape {
namespace {

using Clock = std::chrono::steady_clock;
double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

/// True at steps n, 2 n, ... and at the last one; n = 0: only at the last one.
bool due(std::int64_t step, std::int64_t every, std::int64_t last) {
  return step == last || (every > 0 && step % every == 0);
}

/// One run: what its parts share.
class Run {
 public:
  Run(Backend& backend, const RunFolder& folder, const TokenFile& data, Trainer& trainer)
      : backend_(backend),
        folder_(folder),
        data_(data),
        trainer_(trainer),
        config_(trainer.recipe().train),
        metrics_(folder.metrics(), folder.events(), trainer.steps_done(), to_toml(trainer.recipe())),
        progress_(stdout, config_.steps, trainer.steps_done()) {}

  void train(const std::string& command) {
    train_to_the_end(command);
    finish();
  }

 private:
  void train_to_the_end(const std::string& command) {
    const StopSignals signals;
    while (!trainer_.finished()) {
      try {
        step();
        if (due(trainer_.steps_done(), config_.eval_every, config_.steps)) validate();
      } catch (const Error& e) {
        if (e.code() != ExitCode::diverged) throw;
        fail(e.code(), "{}\n  {}", e.what(), way_back(command));
      }
      const std::int64_t done = trainer_.steps_done();
      const bool stop = StopSignals::received() != 0, asked = StopSignals::take_save_request();
      if (stop || asked || due(done, config_.save_every, config_.steps)) save();
      if (asked) progress_.note(fmt::format("SIGUSR2: {} is written", folder_.checkpoint(done).string()));
      require(!stop || trainer_.finished(), ExitCode::interrupted,
              "stopped by {} after step {}; {} is written\nto go on: {} --resume auto",
              StopSignals::name_of(StopSignals::received()), done, folder_.checkpoint(done).string(),
              command);
    }
  }

  /// What a run that diverged can do.
  std::string way_back(const std::string& command) const {
    const auto files = folder_.checkpoints();
    if (files.empty()) return fmt::format("no checkpoint yet: train.save_every is {}", config_.save_every);
    return fmt::format(
        "the last checkpoint is {}\n  to go on with, say, another learning rate: {} --resume auto "
        "--allow-change optim",
        files.front().string(), command);
  }

  void step() {
    const auto begin = Clock::now();
    const auto result = trainer_.step();
    const double seconds = seconds_since(begin);
    const StepRecord record{.step = trainer_.steps_done(),
                            .loss = result.loss,
                            .norm = result.norm,
                            .learning_rate = result.learning_rate,
                            .milliseconds = 1e3 * seconds,
                            .tokens_per_second = double(trainer_.tokens_per_step()) / seconds};
    metrics_.step(record);
    progress_.step(record);
  }

  void validate() {
    const auto begin = Clock::now();
    last_validation_ = trainer_.validate([&](auto done, auto total) { progress_.validating(done, total); });
    metrics_.validation(trainer_.steps_done(), last_validation_.loss, data_.floor);
    progress_.validation(trainer_.steps_done(), last_validation_.loss, data_.floor, seconds_since(begin));
  }

  void save() {
    metrics_.sync();
    trainer_.save(folder_.checkpoint(trainer_.steps_done()));
    auto device = backend_.choices();
    device.insert(device.begin(), backend_.description());
    write_atomically(folder_.device(), fmt::format("{}\n", fmt::join(device, "\n")));
    folder_.retain(config_.keep);
  }

  void finish() {
    print_result(stdout, last_validation_, data_.floor, backend_.peak_bytes());
    sample_text();
    print_paths(stdout, folder_, trainer_.steps_done());
  }

  void sample_text() {
    if (config_.sample_tokens == 0) return;
    SampleOptions options{.tokens = config_.sample_tokens,
                          .temperature = 0.8f,  // a little below 1: fewer of the rare slips
                          .tokens_known = data_.tokenizer.size(),
                          .seed = trainer_.recipe().seed,
                          .pass = trainer_.next_pass()};
    const std::int32_t first = data_.validation[0];
    const auto text = sample(backend_, trainer_.model(), std::span(&first, 1), options);
    say(stdout, "\nsample, {} tokens at temperature {}:\n{}{}\n\n", config_.sample_tokens,
        options.temperature, data_.tokenizer.decode(std::span(&first, 1)), data_.tokenizer.decode(text));
  }

  Backend& backend_;
  const RunFolder& folder_;
  const TokenFile& data_;
  Trainer& trainer_;
  const TrainConfig config_;
  Metrics metrics_;
  Progress progress_;
  Evaluation last_validation_;
};

/// A run of which nothing is left to do: the model is there, and nothing is trained or written.
void print_finished(const std::vector<std::string>& notes, std::int64_t steps,
                    const std::filesystem::path& checkpoint) {
  for (const auto& note : notes) say(stdout, "{}\n", note);
  const std::string file = shell_quoted(checkpoint.string());
  say(stdout,
      "all {0} steps of {1} are done: nothing was trained\n"
      "to go on, add a larger --train.steps and --allow-change train.steps\n"
      "to use the model: {2} sample {3}, or {2} eval {3}\n",
      steps, checkpoint.string(), program_name(), file);
}

}  // namespace

void run_training(const Recipe& recipe, const RunOptions& options) {
  outlive_readers();
  require(recipe.train.keep >= 1, ExitCode::usage, "train.keep = {}; want at least 1", recipe.train.keep);
  require(!recipe.data.file.empty(), ExitCode::usage,
          "recipe '{0}': data.file is not set; make a token file with `{1} prepare` or `{1} corpus`",
          recipe.name, program_name());
  const TokenFile data = TokenFile::read(recipe.data.file);
  if (const auto problems = short_splits(recipe, data); !problems.empty()) throw problems.front();
  const RunFolder folder(std::filesystem::path(recipe.train.out) / recipe.name);
  const Start start = choose_start(folder, options.resume);
  std::optional<CheckpointFile> checkpoint;
  if (start.checkpoint) {
    checkpoint.emplace(*start.checkpoint);
    require_same_tokenizer(checkpoint->header(), *start.checkpoint, data, recipe.data.file);
  }
  const Recipe resolved = with_vocabulary(recipe, data.tokenizer);
  std::vector<std::string> notes = start.notes;
  if (checkpoint) {
    for (auto& note : check_changes(checkpoint->header(), resolved, data.hash, options.allow_change))
      notes.push_back(std::move(note));
    if (checkpoint->header().step == resolved.train.steps)
      return print_finished(notes, resolved.train.steps, *start.checkpoint);
  }
  if (recipe.compute.threads > 0) set_threads(int(recipe.compute.threads));
  const auto device = make_backend(recipe.compute.device, recipe.compute.options());
  CheckedBackend checked(*device);
  // Looks at every kernel's result and changes none.
  const char* check = std::getenv("MXTAPE_CHECK");
  Backend& backend = check && std::string_view(check) == "1" ? static_cast<Backend&>(checked) : *device;
  const MemoryBudget budget = MemoryBudget::of(resolved, backend, data);
  const MemoryPlan plan = memory_plan(resolved);
  require_memory(resolved, plan, budget);
  folder.require_room(plan.checkpoint());
  Trainer trainer(backend, resolved, data);
  print_header(stdout, resolved, data, backend, memory_text(plan, budget), folder.path());
  for (const auto& note : notes) say(stdout, "{}\n", note);
  if (checkpoint) {
    trainer.load(*checkpoint);
    checkpoint.reset();
    say(stdout, "resumed from {} at step {}\n", start.checkpoint->string(), trainer.steps_done());
  }
  for (const auto& note : make_way(folder, start)) say(stdout, "{}\n", note);
  write_recipe(folder, start, trainer.steps_done(), trainer.recipe());
  std::fflush(stdout);
  Run(backend, folder, data, trainer).train(options.command);
}

}  // namespace mxtape
