#include "program/models/verify.h"

#include <cstdio>

#include "program/commands/exit_code_names.h"
#include "program/show/command.h"
#include "program/show/report.h"

namespace mxtape {
namespace {

struct Arguments {
  std::vector<std::string> words;
};

Report run(const Arguments& arguments, const Given& given) {
  Report out;
  Table files("file; ok; content; code; kind; message");
  std::size_t failed = 0;
  std::optional<Error> first;
  for (const auto& word : arguments.words)
    for (const Finding& found : verify(word)) {
      const ExitCode code = found.problem ? found.problem->code() : ExitCode::ok;
      const std::string file = found.file.string(), message = found.problem ? found.problem->what() : "";
      files.row(file, !found.problem, found.content, int(code), name_of(code), message);
      out.text(found.problem ? "FAILED  " + message + "\n" : "ok      " + file + "  " + found.content + "\n");
      out.show(given.json);  // a large file takes seconds
      if (found.problem && failed++ == 0) first = found.problem;
    }
  out.put("ok", failed == 0, "files", files);
  if (first)
    out.problems.emplace_back(first->code(), fmt::format("verify: {} of {} failed; the first: {}", failed,
                                                         files.rows(), first->what()));
  return out;
}

Options options(Arguments& a) {
  return {{"FILE", &a.words,
           "a checkpoint, RUN@STEP, a token file, a packed model or tensor; or a run's folder, for all its "
           "checkpoints, its recipes and its metrics"}};
}

}  // namespace

Command commands::verify() {
  return {"verify", "Read checkpoints, runs and token files whole, and say of each if anything is wrong",
          with(options, run)};
}

}  // namespace mxtape
