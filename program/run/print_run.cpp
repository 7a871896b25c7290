#include "program/run/print_run.h"

#include <cmath>
#include <cstdio>

#include "core/memory/resident.h"
#include "core/text/program_name.h"
#include "program/plan/plan_text.h"
#include "program/plan/rollback.h"
#include "program/run/agree.h"
#include "program/show/output.h"
#include "recipes/telemetry.h"
#include "recipes/text/precision_table.h"
#include "train/sampling/sample.h"

namespace mxtape {

void print_header(const RunPlan& plan, Devices* devices) {
  const Recipe& recipe = plan.recipe;
  say(stdout, "mxtape {}   recipe {}   seed {}\n", MXTAPE_VERSION, recipe.name, recipe.seed);
  for (const auto& fact : plan.facts) say(stdout, "{}\n", fact);
  if (devices) {
    say(stdout, "devices     {}\n", devices_text(*devices, recipe.train));
    for (const GatherPlan& gather : gather_plans(recipe))
      say(stdout, "gather      {}\n", gather_text(gather));
    // It kills the processes two seconds after it has passed a SIGTERM on, and a SIGINT at once.
    if (devices->group().place().launcher == "Open MPI's mpirun")
      say(stdout, "to stop     kill -USR1 of mpirun: after Ctrl-C it leaves no time to save\n");
  }
  say(stdout, "{}", precision_table(recipe));
  for (const auto& note : plan.notes) say(stdout, "note: {}\n", note);
}

void print_beginning(const RunPlan& plan, std::int64_t step) {
  const Beginning& begin = plan.begin;
  if (begin.from == Beginning::From::weights) {
    const std::string &hash = begin.turn->hash, before = initial_hash_of(plan.folder);
    say(stdout, "init        {}\n            content hash {}; moments begin at zero\n", begin.weights->text(),
        hash);
    for (const auto& change : begin.turn->changed) say(stdout, "  {}\n", change);
    if (!before.empty() && before != hash)
      say(stdout, "  note: an earlier attempt here began with weights of content hash {}\n", before);
  }
  if (begin.from != Beginning::From::checkpoint) return;
  for (const Turn& back : turns_of_rollbacks(plan.recipe, begin.known_rollbacks))
    say(stdout, "rollback {}: from step {} to {}\n", back.rollback, back.from, back.step);
  say(stdout, "resumed from {} at step {}\n", begin.file->string(), step);
}

void print_rollback(const RunPlan& plan) {
  const Turn turn = turns_of_rollbacks(plan.recipe, plan.begin.known_rollbacks).front();
  for (const auto& note : plan.begin.notes) say(stdout, "{}\n", note);
  say(stdout, "rollback {} of at most {}: from step {} to {}\n", turn.rollback,
      plan.recipe.train.rollback_most, turn.from, plan.begin.file->string());
  for (const auto& change : turn.changed) say(stdout, "  {}\n", change);
  std::fflush(stdout);
}

void print_finished(const RunPlan& plan) {
  for (const auto& note : plan.notes) say(stdout, "{}\n", note);
  const std::string file = shell_quoted(plan.begin.file->string());
  say(stdout,
      "all {0} steps of {1} are done: nothing was trained\nto go on, add a larger --train.steps and "
      "--allow-change train.steps\nto use the model: {2} sample {3}, or {2} eval {3}\n",
      plan.recipe.train.steps, plan.begin.file->string(), program_name(), file);
}

void print_result(const Evaluation& validation, std::optional<double> floor, std::int64_t peak_bytes) {
  const bool whole = validation.windows == validation.of_windows;
  say(stdout, "\nvalidation loss {:.4f} nats per token, perplexity {:.3f}{}\n", validation.loss,
      std::exp(validation.loss),
      whole ? "" : fmt::format(", on the first {} of {} windows", validation.windows, validation.of_windows));
  if (floor)
    say(stdout, "floor           {:.4f} nats per token, gap {:.4f}\n", *floor, validation.loss - *floor);
  say(stdout, "memory          tensors {} at their peak, process {}\n", bytes_text(double(peak_bytes)),
      bytes_text(double(most_resident_bytes())));
}

void print_sample(Backend& backend, Trainer& trainer, const TokenFile& data) {
  const std::int64_t tokens = trainer.recipe().train.sample_tokens;
  if (tokens == 0) return;
  const SampleOptions options{.tokens = tokens,
                              .temperature = 0.8,  // a little below 1: fewer of the rare slips
                              .tokens_known = data.tokenizer.size(),
                              .seed = trainer.recipe().seed,
                              .pass = trainer.next_pass()};
  std::vector<std::int32_t> text{data.validation[0]};
  const auto drawn = sample(backend, trainer.model(), text, options);
  text.insert(text.end(), drawn.begin(), drawn.end());
  say(stdout, "\nsample, {} tokens at temperature {}:\n{}\n\n", tokens, options.temperature,
      data.tokenizer.decode(text));
}

void print_paths(const RunFolder& folder, std::int64_t step) {
  say(stdout, "checkpoint  {}\nmetrics     {}\nTensorBoard {}\n", folder.checkpoint(step).string(),
      folder.metrics().string(), folder.events().string());
  if (std::filesystem::exists(folder.telemetry()))
    say(stdout, "telemetry   {}\n", folder.telemetry().string());
}

}  // namespace mxtape
