#include "program/checkpoints/verify.h"

#include <cstdio>

#include "program/command.h"
#include "program/exit_code_names.h"
#include "program/show/report.h"

namespace mxtape {
namespace {

struct Arguments {
  std::vector<std::string> words;
  bool json = false;
};

void print(const Finding& found) {
  if (found.problem)
    fmt::print("FAILED  {}\n", found.problem->what());
  else
    fmt::print("ok      {}  {}\n", found.file.string(), found.content);
  std::fflush(stdout);  // a large file takes seconds
}

Json json_of(const Finding& found) {
  const ExitCode code = found.problem ? found.problem->code() : ExitCode::ok;
  return {{"file", found.file.string()}, {"ok", !found.problem},
          {"content", found.content},    {"code", int(code)},
          {"kind", name_of(code)},       {"message", found.problem ? found.problem->what() : ""}};
}

void run(const Arguments& arguments) {
  Json json{{"ok", true}, {"files", Json::array()}};
  std::size_t files = 0, failed = 0;
  std::optional<Error> first;
  for (const auto& word : arguments.words)
    for (const Finding& found : verify(word)) {
      ++files;
      if (arguments.json)
        json["files"].push_back(json_of(found));
      else
        print(found);
      if (!found.problem) continue;
      if (failed++ == 0) first = found.problem;
    }
  json["ok"] = failed == 0;
  if (arguments.json) print_json(json);
  if (!first) return;
  std::fflush(stdout);
  fail(first->code(), "verify: {} of {} failed; the first: {}", failed, files, first->what());
}

}  // namespace

void add_verify_command(CLI::App& app) {
  auto* command = app.add_subcommand(
      "verify", "Read checkpoints, runs and token files whole, and say of each if anything is wrong");
  auto a = std::make_shared<Arguments>();
  command
      ->add_option(
          "FILE", a->words,
          "a checkpoint, RUN@STEP, a token file, a packed model or tensor; or a run's folder, for all its "
          "checkpoints, its recipes and its metrics")
      ->required();
  add_json_option(*command, a->json);
  command->callback([a] { run(*a); });
}

}  // namespace mxtape
