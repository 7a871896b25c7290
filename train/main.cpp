#include <algorithm>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <new>
#include <string>
#include <string_view>
#include <vector>

#include "core/error.h"
#include "core/nearest_name.h"
#include "train/command.h"

namespace mxtape {
namespace {

void require_known_command(const CLI::App& app, const char* word) {
  std::vector<std::string> names;
  for (const auto* command : app.get_subcommands(nullptr)) names.push_back(command->get_name());
  const std::vector<std::string_view> known(names.begin(), names.end());
  require(std::find(known.begin(), known.end(), word) != known.end(), ExitCode::usage,
          "unknown command '{}'{}", word, suggestion(word, known));
}

/// What `mxtape` without a word says.
void print_overview(const CLI::App& app) {
  std::fprintf(stderr, "mxtape: no command; want one of\n\n");
  for (const auto* command : app.get_subcommands(nullptr))
    std::fprintf(stderr, "  %-12s %s\n", command->get_name().c_str(), command->get_description().c_str());
  std::fprintf(stderr,
               "\n`mxtape COMMAND --help` says more. From nothing to a trained model:\n"
               "  mxtape corpus --out runs/demo.h5 && mxtape train demo-mxfp4\n");
}

}  // namespace
}  // namespace mxtape

/// The `mxtape` program: one sub-command per command_<name>.cpp. Exit codes: docs/exit_codes.md.
int main(int argc, char** argv) {
  using namespace mxtape;
  std::signal(SIGXFSZ, SIG_IGN);  // a file size limit is an error to report, as a full disk is
  CLI::App app{"mxtape trains GPT models in microscaling (MX) formats", "mxtape"};
  app.require_subcommand(1);
  app.set_version_flag("--version", MXTAPE_VERSION);
  add_train_command(app);
  add_check_command(app);
  add_sample_command(app);
  add_eval_command(app);
  add_plot_command(app);
  add_prepare_command(app);
  add_corpus_command(app);
  add_formats_command(app);
  add_compare_command(app);
  add_quantize_command(app);
  add_conformance_command(app);
  add_recipes_command(app);
  if (argc < 2) {
    print_overview(app);
    return int(ExitCode::usage);
  }
  try {
    if (argv[1][0] != '-') require_known_command(app, argv[1]);
    app.parse(argc, argv);
  } catch (const CLI::Success& e) {  // --help, --version
    return app.exit(e);
  } catch (const CLI::ParseError& e) {
    const auto commands = app.get_subcommands();
    const std::string command = commands.empty() ? "" : " " + commands.front()->get_name();
    std::fprintf(stderr, "mxtape:%s%s %s; `mxtape%s --help` says what there is\n", command.c_str(),
                 command.empty() ? "" : ":", e.what(), command.c_str());
    return int(ExitCode::usage);
  } catch (const Error& e) {
    std::fprintf(stderr, "mxtape: %s\n", e.what());
    return int(e.code());
  } catch (const std::filesystem::filesystem_error& e) {
    std::fprintf(stderr, "mxtape: %s\n", e.what());
    return int(ExitCode::resource);
  } catch (const std::bad_alloc&) {
    std::fprintf(stderr, "mxtape: out of memory\n");
    return int(ExitCode::resource);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "mxtape: unexpected: %s\n", e.what());
    return int(ExitCode::internal);
  }
  return 0;
}
