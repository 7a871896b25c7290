#include "program/plan/run_words.h"

#include <algorithm>

#include "core/text/program_name.h"
#include "program/plan/resume.h"

namespace mxtape {

Options run_options(RunWords& words) {
  return {{"[recipe]", &words.recipe,
           "a .toml file, or the name of a shipped recipe (mxtape recipes); may be left out with --from"},
          {"--resume", &words.resume,
           "auto: from the newest checkpoint that verifies; no: start again and keep what is there; or a "
           "checkpoint's path"},
          {"--allow-change", &words.allow_change,
           "a key or section that may differ from the checkpoint's recipe on resume, or from the parent's; "
           "may be repeated"},
          {"--from", &words.from,
           "branch: begin at this checkpoint, or run's newest, or RUN@STEP, with its recipe and what this "
           "one says on top"},
          {"--fresh", &words.fresh,
           "of a branch: begin anew with the optimizer's moments, the schedule, or with no precision but "
           "this recipe's; may be repeated",
           one_of("optimizer schedule precision").needs("--from")},
          device_option(words.device)};
}

void take_rest(RunWords& words, const Given& given) {
  words.overrides = overrides_of(given, words.device);
  std::vector<std::string> again = given.rest;
  if (!words.recipe.empty()) again.insert(again.begin(), words.recipe);
  if (given("--device")) again.insert(again.end(), {"--device", words.device});
  for (const auto& key : words.allow_change) again.push_back("--allow-change=" + key);
  if (!words.from.empty()) again.insert(again.end(), {"--from", words.from});
  for (const auto& word : words.fresh) again.push_back("--fresh=" + word);
  words.command = program_name() + " train";
  for (const auto& word : again) words.command += " " + shell_quoted(word);
}

void require_sense(const RunWords& words) {
  require(!words.recipe.empty() || !words.from.empty(), ExitCode::usage,
          "no recipe; want one, as in `{0} train demo-mxfp4`; `{0} recipes` lists those that are shipped, "
          "and a file of yours does as well",
          program_name());
  require(!words.recipe.empty() ||
              std::ranges::any_of(words.overrides, [](auto& o) { return o.starts_with("name="); }),
          ExitCode::usage, "--from {}: no recipe is given, so what is new has no name; add --name=...",
          words.from);
  require(
      words.allow_change.empty() || !words.from.empty() || (!words.resume.empty() && words.resume != "no"),
      ExitCode::usage,
      "--allow-change: only a run that goes on has something to differ from; want --resume auto, or a "
      "checkpoint's path, or --from RUN, with it");
  require(words.from.empty() || words.resume.empty() || words.resume == "auto" || words.resume == "no",
          ExitCode::usage, "--from {} and --resume {}: a run begins at one checkpoint; want one of them",
          words.from, words.resume);
  require_known_changes(words.allow_change);
}

}  // namespace mxtape
