#include "program/command.h"
#include "program/sweep/run_sweep.h"

#include "core/text/program_name.h"

namespace mxtape {

void add_sweep_command(CLI::App& app) {
  auto* command = app.add_subcommand(
      "sweep", "Train the arms of a file on the same seeds, and say which differ from the baseline");
  auto options = std::make_shared<SweepOptions>();
  command->add_option("file", options->file, "a sweep's .toml file (docs/sweeps.md)")->required();
  auto* jobs =
      command->add_option("--jobs", options->jobs, "runs at a time; default: one for each core, on a GPU one")
          ->check(whole(1, 1024));
  auto* out = command->add_option("--out", options->out,
                                  "folder of the sweep; default: <train.out>/<the file's name>");
  command->add_flag("--again", options->again,
                    "train anew the runs there that another recipe, program or data made, and keep those");
  auto check = std::make_shared<bool>(false);
  command->add_flag("--check", *check, "list arms, differences, runs, time and disk, and train nothing");
  auto json = std::make_shared<bool>(false);
  add_json_option(*command, *json);
  command->callback([=] {
    require(out->empty() || !options->out.empty(), ExitCode::usage, "--out '': want a folder");
    const SweepForm form = *json ? SweepForm::json : SweepForm::text;
    if (*check) return print_sweep_plan(*options, form);
    std::string words = program_name() + " sweep " + shell_quoted(options->file);
    if (!jobs->empty()) words += fmt::format(" --jobs {}", options->jobs);
    if (!out->empty()) words += " --out " + shell_quoted(options->out);
    run_sweep(*options, words, form);
  });
}

}  // namespace mxtape
