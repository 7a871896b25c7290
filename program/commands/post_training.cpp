#include <algorithm>
#include <set>

#include "program/post_training/post_training.h"
#include "program/records/run_name.h"
#include "program/show/command.h"

namespace mxtape {
namespace {

struct Arguments {
  PostTrainingOptions options{
      .precisions = {"mxint8", "mxfp8_e4m3", "mxfp6_e3m2", "mxfp6_e2m3", "mxfp4", "nvfp4"}};
  std::vector<std::string> settings{"weights", "cast", "diffused", "finetuned"};
  std::string out;
};

Report run(Arguments& a, const Given& given) {
  PostTrainingOptions& options = a.options;
  for (const auto& precision : options.precisions) (void)Cast{precision}.bits_per_element();  // misspelt: now
  check_attention(options.attention, false, options.precisions);
  for (const auto& name : a.settings) options.wanted.push_back(parse_setting(name));
  options.out = a.out;
  require(!options.keep || !a.out.empty(), ExitCode::usage,
          "--keep: models are kept in the folder of the results; name it with --out DIR");
  require(std::set(options.wanted.begin(), options.wanted.end()).size() == options.wanted.size(),
          ExitCode::usage, "--setting: one is named twice; want each once");
  const bool diffuses = std::ranges::any_of(options.wanted, is_diffused),
             finetunes = std::ranges::find(options.wanted, Setting::finetuned) != options.wanted.end();
  for (const auto& [names, used] : {std::pair("--calibration --seed --damping", diffuses),
                                    {"--finetune", finetunes},
                                    {"--learning-rate", finetunes && options.finetune.steps > 0}})
    for (const auto& option : split(names))
      require(used || !given(option), ExitCode::usage, "{} has no effect on what is measured", option);
  if (options.finetune.steps == 0) std::erase(options.wanted, Setting::finetuned);
  require(!options.wanted.empty(), ExitCode::usage, "no setting is left: --finetune 0 takes 'finetuned' out");

  const PostTraining result = run_post_training(options, given.json ? stderr : stdout);
  const auto failed = std::ranges::count_if(result.measurements, [](auto& m) { return !m.loss; });
  Report report;
  report.text("\n" + table_text(result));
  report.put("*", value_of(result));
  if (failed)
    report.problems.emplace_back(
        ExitCode::diverged, fmt::format("{} of {} measurements diverged; the table has the others", failed,
                                        result.measurements.size()));
  return report;
}

Options options(Arguments& a) {
  PostTrainingOptions& o = a.options;
  std::string names, meanings;
  for (const auto& row : settings) {
    names += fmt::format("{} ", row.name);
    meanings += fmt::format("{}{}: {}", meanings.empty() ? "" : "; ", row.name, row.meaning);
  }
  return {
      {"RUN", &o.run, run_name_help},
      {"--precision", &o.precisions, precision_help + std::string("; may be repeated")},
      {"--setting", &a.settings, "what is measured; may be repeated. " + meanings, one_of(names)},
      {"--attention", &o.attention, attention_help},
      {"--data", &o.data,
       "another token file than the recipe's: its training split to calibrate and finetune on, its "
       "validation split to measure on"},
      {"--windows", &o.windows, "most validation windows; 0: as the recipe says"},
      {"--calibration", &o.calibration, "windows of the training split that error diffusion sees",
       within(1, 1 << 20)},
      {"--seed", &o.seed, "of the draw of these windows"},
      {"--damping", &o.damping,
       "what error diffusion adds to the diagonal of a Gram matrix, in units of its mean", within(0, 1e6)},
      {"--finetune", &o.finetune.steps, "steps of finetuning; 0: none", within(0, 1 << 30)},
      {"--learning-rate", &o.finetune.learning_rate,
       "its largest; falls straight to 0. 0: a tenth of the run's peak", within(0, 1e3)},
      {"--out", &a.out,
       "folder for results.json, which grows with every measurement: what is there already is not measured "
       "again"},
      {"--keep", &o.keep, "keep diffused and finetuned models there, as checkpoints"},
      device_of_run_option(o.device)};
}

}  // namespace

Command commands::post_training() {
  return {"post-training",
          "What a trained model loses in number formats: cast, with error diffusion on calibration data, and "
          "finetuned in them",
          with(options, run)};
}

}  // namespace mxtape
