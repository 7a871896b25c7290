#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "core/errors/current_error.h"
#include "core/text/nearest_name.h"
#include "core/text/program_name.h"
#include "core/text/short_lines.h"
#include "dist/together.h"
#include "program/command.h"
#include "program/help_text.h"
#include "program/stop_signals.h"
#include "program/version.h"

namespace mxtape {
namespace {

const CLI::App& known_command(const CLI::App& app, const std::string& word) {
  std::vector<std::string> names;
  for (const auto* command : app.get_subcommands(nullptr)) {
    if (command->get_name() == word) return *command;
    names.push_back(command->get_name());
  }
  names.push_back("help");
  const std::vector<std::string_view> known(names.begin(), names.end());
  fail(ExitCode::usage, "unknown command '{}'{}", word, suggestion(word, known));
}

/// Where both go to one file, what was printed stands before it.
void complain(const std::string& why) {
  std::fflush(stdout);
  std::fprintf(stderr, "mxtape: %s\n", with_short_lines(why).c_str());
}

/// What `mxtape` without a word says.
void print_overview(const CLI::App& app) {
  std::fprintf(stderr, "mxtape: no command; want one of\n\n");
  for (const auto* command : app.get_subcommands(nullptr))
    std::fputs(help_item(command->get_name(), command->get_description(), 17).c_str(), stderr);
  const std::string program = shell_quoted(program_name());
  std::fprintf(stderr,
               "\n`%s help COMMAND` says more. From nothing to a trained model:\n"
               "  %s corpus --out runs/demo.h5 && %s train demo-mxfp4\n",
               program.c_str(), program.c_str(), program.c_str());
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

std::vector<std::string> option_names(const CLI::App& command) {
  std::vector<std::string> names;
  for (const auto* option : command.get_options()) {
    for (const auto& name : option->get_lnames()) names.push_back("--" + name);
    for (const auto& name : option->get_snames()) names.push_back("-" + name);
  }
  return names;
}

/// `hint`: what to say where no name is near.
[[noreturn]] void refuse_option(const CLI::App& command, const std::string& word, const char* hint) {
  const auto options = option_names(command);
  const std::vector<std::string_view> known(options.begin(), options.end());
  const std::string option = word.substr(0, word.find('='));
  fail(ExitCode::usage, "{}unknown option '{}'{}{}",
       command.get_parent() ? command.get_name() + ": " : std::string(), option, suggestion(option, known),
       nearest_names(option, known).empty() ? hint : "");
}

/// What a command does not know: the first such word, and what it may have meant. (CLI11 lists them all, the
/// last one first.)
[[noreturn]] void refuse_extras(const CLI::App& app) {
  const auto commands = app.get_subcommands();
  const CLI::App& command = commands.empty() ? app : *commands.front();
  const auto words = command.remaining();
  const std::string word = words.empty() ? app.remaining().front() : words.front();
  if (word.starts_with('-')) refuse_option(command, word, "");
  std::string hint;
  for (const auto* option : command.get_options())
    if (is_repeatable(*option) && option->count() > 0)
      hint = fmt::format("; {0} takes one value a use: {0} A {0} B", option->get_name());
  fail(ExitCode::usage, "{}: '{}' is one word too many{}; `{} {} --help` says what there is",
       command.get_name(), word, hint, shell_quoted(program_name()), command.get_name());
}

/// `mxtape help`, `mxtape help train`: what --help prints.
void print_help(const CLI::App& app, const std::vector<std::string>& words) {
  require(words.size() <= 2, ExitCode::usage, "help: '{}' is one word too many; want mxtape help COMMAND",
          words.back());
  const CLI::App& command = words.size() == 1 || words[1] == "help" ? app : known_command(app, words[1]);
  fmt::print("{}", command.help(command.get_parent() ? app.get_name() : ""));
}

void print_version_of(const std::vector<std::string>& words) {
  const bool json = words.size() == 2 && words[1] == "--json";
  require(words.size() == 1 || json, ExitCode::usage, "{} stands alone, or before --json", words[0]);
  print_version(source_commit(), json ? VersionForm::json : VersionForm::text);
}

void run(CLI::App& app, int argc, char** argv) {
  const std::vector<std::string> words(argv + 1, argv + argc);
  const auto options = option_names(app);
  if (words[0] == "help") {
    print_help(app, words);
  } else if (words[0] == "-V" || words[0] == "--version") {
    print_version_of(words);
  } else {
    if (words[0].starts_with('-') && std::find(options.begin(), options.end(), words[0]) == options.end())
      refuse_option(app, words[0], "; a command comes before its options: mxtape COMMAND ...");
    if (!words[0].starts_with('-')) known_command(app, words[0]);
    try {
      app.parse(argc, argv);
    } catch (const CLI::Success& e) {  // --help
      app.exit(e);
    } catch (const CLI::ExtrasError&) {
      refuse_extras(app);
    }
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
  leave_no_unfinished_file();
  CLI::App app{"mxtape trains GPT models in microscaling (MX) formats", "mxtape"};
  add_commands(app);
  if (argc < 2) {
    print_overview(app);
    return int(ExitCode::usage);
  }
  try {
    run(app, argc, argv);
  } catch (const CLI::ParseError& e) {
    const auto commands = app.get_subcommands();
    const std::string command = commands.empty() ? "" : " " + commands.front()->get_name();
    std::fprintf(stderr, "mxtape:%s%s %s; `%s%s --help` says what there is\n", command.c_str(),
                 command.empty() ? "" : ":", e.what(), shell_quoted(program_name()).c_str(), command.c_str());
    return int(ExitCode::usage);
  } catch (const Told& e) {
    return int(e.code());
  } catch (const std::exception& e) {
    const Error error = current_error();
    // {fmt} reports a failed write without the name of what it wrote to.
    const bool printing = dynamic_cast<const std::system_error*>(&e) && std::ferror(stdout);
    complain((printing ? "standard output: " : "") + std::string(error.what()));
    return int(error.code());
  }
  return 0;
}
