#include <algorithm>

#include "program/command.h"
#include "program/output.h"
#include "program/post_training/post_training.h"
#include "program/post_training/table.h"
#include "program/progress.h"
#include "program/run_name.h"

namespace mxtape {
namespace {

struct Arguments {
  PostTrainingOptions options{
      .run = {},
      .device = {},
      .data = {},
      .precisions = {"mxint8", "mxfp8_e4m3", "mxfp6_e3m2", "mxfp6_e2m3", "mxfp4", "nvfp4"},
      .wanted = {},
      .finetune = {},
      .out = {}};
  std::vector<std::string> settings{"weights", "cast", "diffused", "finetuned"};
  std::string out;
  bool json = false;
};

void run(Arguments& a) {
  PostTrainingOptions& options = a.options;
  for (const auto& precision : options.precisions) (void)Cast{precision}.bits_per_element();  // misspelt: now
  check_attention(options.attention, false, options.precisions);
  for (const auto& name : a.settings) options.wanted.push_back(parse_setting(name));
  options.out = a.out;
  require(!options.keep || !a.out.empty(), ExitCode::usage,
          "--keep: models are kept in the folder of the results; name it with --out DIR");
  if (options.finetune.steps == 0) std::erase(options.wanted, Setting::finetuned);
  require(!options.wanted.empty(), ExitCode::usage, "no setting is left: --finetune 0 takes 'finetuned' out");

  std::FILE* const out = a.json ? stderr : stdout;
  PostTrainingLine line(out);
  const PostTraining result = run_post_training(
      options, [&](const PostTraining& subject) { say(out, "{}", subject_text(subject)); },
      [&](const PostTrainingProgress& now) { line.look(now); });
  if (a.json)
    print_json(json_of(result));
  else
    say(out, "\n{}", table_text(result));
  const auto failed = std::count_if(result.measurements.begin(), result.measurements.end(),
                                    [](const Measurement& m) { return !m.loss; });
  require(failed == 0, ExitCode::diverged, "{} of {} measurements diverged; the table has the others", failed,
          result.measurements.size());
}

}  // namespace

void add_post_training_command(CLI::App& app) {
  auto* command =
      app.add_subcommand("post-training",
                         "What a trained model loses in number formats: cast, with error diffusion on "
                         "calibration data, and finetuned in them");
  auto a = std::make_shared<Arguments>();
  PostTrainingOptions& o = a->options;
  command->add_option("RUN", o.run, run_name_help)->required();
  repeatable(
      command->add_option("--precision", o.precisions, precision_help + std::string("; may be repeated")))
      ->capture_default_str();
  std::vector<std::string> names;
  std::string meanings;
  for (const auto& row : settings) {
    names.emplace_back(row.name);
    meanings += fmt::format("{}{}: {}", meanings.empty() ? "" : "; ", row.name, row.meaning);
  }
  repeatable(command->add_option("--setting", a->settings, "what is measured; may be repeated. " + meanings))
      ->check(CLI::IsMember(names))
      ->capture_default_str();
  command->add_flag("--attention", o.attention, attention_help);
  command->add_option(
      "--data", o.data,
      "another token file than the recipe's: its training split to calibrate and finetune on, its "
      "validation split to measure on");
  add_checked(*command, "--windows", o.windows, "most validation windows; 0: as the recipe says", whole(0));
  add_checked(*command, "--calibration", o.calibration,
              "windows of the training split that error diffusion sees", whole(1, 1 << 20));
  add_checked(*command, "--seed", o.seed, "of the draw of these windows", whole(0));
  add_checked(*command, "--damping", o.damping,
              "what error diffusion adds to the diagonal of a Gram matrix, in units of its mean",
              between(0, 1e6));
  add_checked(*command, "--finetune", o.finetune.steps, "steps of finetuning; 0: none", whole(0, 1 << 30));
  add_checked(*command, "--learning-rate", o.finetune.learning_rate,
              "its largest; falls straight to 0. 0: a tenth of the run's peak", between(0, 1e3));
  command->add_option(
      "--out", a->out,
      "folder for results.json, which grows with every measurement: what is there already is not "
      "measured again");
  command->add_flag("--keep", o.keep, "keep diffused and finetuned models there, as checkpoints");
  command->add_option("--device", o.device, "cpu or cuda; default: the device of the checkpoint's recipe");
  add_json_option(*command, a->json);
  command->callback([a] { run(*a); });
}

}  // namespace mxtape
