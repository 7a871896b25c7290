#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <new>
#include <string>
#include <string_view>
#include <system_error>
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

/// A closed descriptor would be given to the next file that is opened, and what is printed would go into that
/// file. Opened like this, writing to it fails instead.
void open_standard_streams() {
  for (const int descriptor : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
    if (::fcntl(descriptor, F_GETFD) < 0) (void)!::open("/dev/null", O_RDONLY);
}

/// All that was printed has arrived, or this is an Error: on a full disk the text is lost at the last moment.
void finish_output() {
  const bool failed = std::fflush(stdout) != 0;
  require(!failed && !std::ferror(stdout), ExitCode::resource,
          "standard output: cannot be written{}; what was printed is not whole",
          failed ? fmt::format(": {}", std::strerror(errno)) : "");
}

/// What a command does not know: the first such word, and what it may have meant. (CLI11 lists them all, the
/// last one first.)
[[noreturn]] void refuse_extras(const CLI::App& app) {
  const auto commands = app.get_subcommands();
  const CLI::App& command = commands.empty() ? app : *commands.front();
  const auto words = command.remaining();
  const std::string word = words.empty() ? app.remaining().front() : words.front();
  require(word.starts_with('-'), ExitCode::usage,
          "{}: '{}' is one word too many; `mxtape {} --help` says what there is", command.get_name(), word,
          command.get_name());
  std::vector<std::string> options;
  for (const auto* option : command.get_options())
    for (const auto& name : option->get_lnames()) options.push_back("--" + name);
  const std::vector<std::string_view> known(options.begin(), options.end());
  const std::string option = word.substr(0, word.find('='));
  fail(ExitCode::usage, "{}: unknown option '{}'{}", command.get_name(), option, suggestion(option, known));
}

void run(CLI::App& app, int argc, char** argv) {
  if (argv[1][0] != '-') require_known_command(app, argv[1]);
  const bool version = std::string_view(argv[1]) == "--version";
  require(!version || argc == 2, ExitCode::usage, "--version stands alone");
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& e) {  // --help, --version
    app.exit(e);
  } catch (const CLI::ExtrasError&) {
    refuse_extras(app);
  }
  finish_output();
}

}  // namespace
}  // namespace mxtape

/// The `mxtape` program: one sub-command per command_<name>.cpp. Exit codes: docs/exit_codes.md.
int main(int argc, char** argv) {
  using namespace mxtape;
  open_standard_streams();
  if (argc > 0) set_program_name(argv[0]);
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
    run(app, argc, argv);
  } catch (const CLI::ParseError& e) {
    const auto commands = app.get_subcommands();
    const std::string command = commands.empty() ? "" : " " + commands.front()->get_name();
    std::fprintf(stderr, "mxtape:%s%s %s; `mxtape%s --help` says what there is\n", command.c_str(),
                 command.empty() ? "" : ":", e.what(), command.c_str());
    return int(ExitCode::usage);
  } catch (const Error& e) {
    std::fprintf(stderr, "mxtape: %s\n", e.what());
    return int(e.code());
  } catch (const std::system_error& e) {  // of the file system, of threads, or of {fmt} when it prints
    std::fprintf(stderr, "mxtape: %s%s\n", std::ferror(stdout) ? "standard output: " : "", e.what());
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
