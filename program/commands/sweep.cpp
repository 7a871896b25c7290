#include "core/text/program_name.h"
#include "program/referee/referee.h"
#include "program/show/command.h"

namespace mxtape {
namespace {

struct Arguments : SweepOptions {
  bool check = false;
};

Options options(Arguments& a) {
  return {{"file", &a.file, "a sweep's .toml file (docs/sweeps.md)"},
          {"--jobs", &a.jobs, "runs at a time; default: one for each core, on a GPU one", within(1, 1024)},
          {"--out", &a.out, "folder of the sweep; default: <train.out>/<the file's name>"},
          {"--again", &a.again,
           "train anew the runs there that another recipe, program or data made, and keep those"},
          {"--part", &a.part, "3/16: the third of sixteen processes that share the folder"},
          {"--report", &a.report, "train nothing, and write the page of what is there, or of a results.json"},
          {"--check", &a.check, "list arms, runs, time and disk; trains three steps to time them"}};
}

Report run(const Arguments& a, const Given& given) {
  for (const char* name : {"--check", "--again", "--jobs", "--part"})
    require(!a.report || !given(name), ExitCode::usage, "{} is not for --report, which trains nothing", name);
  if (a.check) return referee::sweep_plan(a);
  std::string words = program_name() + " sweep " + shell_quoted(a.file);
  if (given("--jobs")) words += fmt::format(" --jobs {}", a.jobs);
  if (given("--out")) words += " --out " + shell_quoted(a.out);
  if (given("--part")) words += " --part " + a.part;
  return referee::run_sweep(a, words, given.json);
}

}  // namespace

Command commands::sweep() {
  return {"sweep", "Train the arms of a file on the same seeds, and say which differ from the baseline",
          with(options, run)};
}

}  // namespace mxtape
