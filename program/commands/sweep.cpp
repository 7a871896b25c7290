#include "core/text/program_name.h"
#include "program/referee/referee.h"
#include "program/show/command.h"

namespace mxtape {
namespace {

struct Arguments : referee::Words {
  bool check = false;
};

Options options(Arguments& a) {
  return {
      {"file", &a.sweep.file, "a sweep's .toml file (docs/sweeps.md)"},
      {"--jobs", &a.sweep.jobs, "runs at a time; default: one for each core, on a GPU one", within(1, 1024)},
      {"--out", &a.sweep.out, "folder of the sweep; default: <train.out>/<the file's name>"},
      {"--again", &a.sweep.again,
       "train anew the runs there that another recipe, program or data made, and keep those"},
      {"--part", &a.part, "3/16: the third of sixteen processes that share the folder"},
      {"--report", &a.report, "train nothing, and write the page of what is there, or of a results.json"},
      {"--check", &a.check, "list arms, runs, time and disk; trains three steps to time them"}};
}

Report run(const Arguments& a, const Given& given) {
  const SweepOptions& options = a.sweep;
  for (const char* name : {"--check", "--again", "--jobs", "--part"})
    require(!a.report || !given(name), ExitCode::usage, "{} is not for --report, which trains nothing", name);
  if (a.check) return referee::sweep_plan(a);
  std::string words = program_name() + " sweep " + shell_quoted(options.file);
  if (given("--jobs")) words += fmt::format(" --jobs {}", options.jobs);
  if (given("--out")) words += " --out " + shell_quoted(options.out);
  if (given("--part")) words += " --part " + a.part;
  return referee::run_sweep(a, words, given.json);
}

}  // namespace

Command commands::sweep() {
  return {"sweep", "Train the arms of a file on the same seeds, and say which differ from the baseline",
          with(options, run)};
}

}  // namespace mxtape
