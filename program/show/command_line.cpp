#include "program/show/command_line.h"

#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <cmath>
#include <cstdio>

#include "core/text/nearest_name.h"
#include "core/text/number.h"
#include "core/text/program_name.h"
#include "data/hdf5/hdf5.h"
#include "dist/together.h"
#include "kernels/choose/make_backend.h"
#include "program/show/command.h"

namespace mxtape {
namespace {

using Words = std::vector<std::string>;
/// As by a variable of the shell that is not set.
constexpr const char* nothing_given = "nothing is given; want a value, or leave it out";

/// A whole number in plain decimal digits, as recipes take them. (CLI11 wraps -1, clamps what is too large
/// and reads 010 as 8.)
std::string wrong_whole(const std::string& word, const Limits& limits) {
  const auto low = std::uint64_t(limits.low),
             high = std::uint64_t(std::isinf(limits.high) ? std::numeric_limits<std::int64_t>::max()
                                                          : std::int64_t(limits.high));
  const auto value = number_of<std::uint64_t>(word);
  const bool plain = value && (word == "0" || word[0] != '0');
  if (plain && *value >= low && *value <= high) return "";
  return fmt::format("'{}', want a whole number from {} to {}", word, low, high);
}

/// (CLI11's Range admits NaN.)
std::string wrong_real(const std::string& word, const Limits& limits, bool narrow) {
  double value = 0;
  const bool number = CLI::detail::lexical_cast(word, value) && std::isfinite(value);
  if (number && narrow && value != 0 && float(value) == 0)
    return fmt::format("'{}', which is 0 as an f32", word);
  if (number && value >= limits.low && value <= limits.high) return "";
  return std::isinf(limits.high)
             ? fmt::format("'{}', want a finite number of at least {}", word, limits.low)
             : fmt::format("'{}', want a number from {} to {}", word, limits.low, limits.high);
}

std::string wrong_word(const std::string& word, const Option& row) {
  const Words choices = split(row.limits.words);
  if (row.limits.check) return row.limits.check(word);
  if (row.is_real()) return wrong_real(word, row.limits, std::holds_alternative<float*>(row.field));
  if (!row.is_list() && !std::holds_alternative<std::string*>(row.field))
    return wrong_whole(word, row.limits);
  if (word.empty()) return nothing_given;
  const bool fits = choices.empty() || std::find(choices.begin(), choices.end(), word) != choices.end();
  return fits ? "" : fmt::format("{} not in {{{}}}", word, fmt::join(choices, ","));
}

void add(CLI::App& app, const Option& row) {
  const auto add_field = [&](auto* field) {
    if constexpr (std::is_same_v<decltype(field), bool*>)
      return app.add_flag(row.name, *field);
    else
      return app.add_option(row.by_place() ? row.key() : row.name, *field)
          ->check([&row](const std::string& word) { return wrong_word(word, row); });
  };
  CLI::Option* option = std::visit(add_field, row.field);
  option->required(row.limits.required || (row.by_place() && row.name[0] != '['));
  if (row.is_list() && !row.by_place())  // the next word may be an operand
    option->expected(1)->allow_extra_args(false)->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
}

[[noreturn]] void refuse_option(const std::string& command, const Words& known, const std::string& word,
                                const char* hint = "") {
  const std::vector<std::string_view> names(known.begin(), known.end());
  const std::string option = word.substr(0, word.find('='));
  fail(ExitCode::usage, "{}unknown option '{}'{}{}", command, option, suggestion(option, names),
       nearest_names(option, names).empty() ? hint : "");
}

const Command& known_command(const std::string& word) {
  for (const Command& command : all_commands())
    if (command.name == word) return command;
  auto names = names_in(all_commands());
  names.emplace_back("help");
  fail(ExitCode::usage, "unknown command '{}'{}", word, suggestion(word, names));
}

/// What a command does not know: the first such word, and what it may have meant. (CLI11 lists them all, the
/// last one first.)
[[noreturn]] void refuse_extra(const Command& command, const Options& rows, const Given& given) {
  const std::string &word = given.rest.front(), name(command.name);
  Words names{"--help", "-h"};
  std::string hint;
  for (const Option& row : rows) {
    if (row.by_place()) continue;
    names.push_back(row.key());
    if (const auto comma = row.name.find(','); comma != row.name.npos)
      names.push_back(row.name.substr(0, comma));
    if (row.is_list() && given(row.key()))
      hint = fmt::format("; {0} takes one value a use: {0} A {0} B", row.key());
  }
  if (word.starts_with('-')) refuse_option(name + ": ", names, word);
  fail(ExitCode::usage, "{}: '{}' is one word too many{}; `{} {} --help` says what there is", name, word,
       hint, shell_quoted(program_name()), name);
}

void run_command(const Command& command, Words words) {
  const Command::Bound bound = command.bind();
  CLI::App app("", std::string(command.name));
  app.allow_extras();
  for (const Option& row : bound.options) add(app, row);
  for (const Option& row : bound.options) {
    for (const auto& other : split(row.limits.needed))
      app.get_option(row.key())->needs(app.get_option(other));
    for (const auto& other : split(row.limits.excluded))
      app.get_option(row.key())->excludes(app.get_option(other));
  }
  for (const Option& row : bound.options)  // CLI11 would take the next word
    require(row.by_place() || std::find(words.begin(), words.end(), row.key() + "=") == words.end(),
            ExitCode::usage, "{}: {}: {}", command.name, row.key(), nothing_given);
  std::reverse(words.begin(), words.end());
  try {
    app.parse(words);
  } catch (const CLI::CallForHelp&) {
    return fmt::print("{}", help_of(command, command.bind().options));  // with their defaults
  } catch (const CLI::ParseError& e) {
    fail(ExitCode::usage, "{0}: {1}; `{2} {0} --help` says what there is", command.name, e.what(),
         shell_quoted(program_name()));
  }
  Given given{.options = {}, .known = {"help"}, .rest = app.remaining()};
  if (const auto mark = std::find(given.rest.begin(), given.rest.end(), "--");  // only says: operands follow
      !command.takes_keys && mark != given.rest.end())
    given.rest.erase(mark);
  for (const Option& row : bound.options) {
    if (app.get_option(row.key())->count() > 0) given.options.push_back(row.key());
    if (!row.by_place()) given.known.push_back(row.key().substr(2));
  }
  if (!given.rest.empty() && !command.takes_keys) refuse_extra(command, bound.options, given);
  bound.run(given);
}

bool asks_for_help(const std::string& word) { return word == "help" || word == "-h" || word == "--help"; }

/// `mxtape help`, `mxtape help train`: what --help prints.
void print_help(const Words& words) {
  require(words.size() <= 2, ExitCode::usage, "help: '{}' is one word too many; want mxtape help COMMAND",
          words.back());
  if (words.size() == 1 || asks_for_help(words[1])) return fmt::print("{}", help_of_program());
  const Command& command = known_command(words[1]);
  fmt::print("{}", help_of(command, command.bind().options));
}

std::string compiler() {
#ifdef __clang__
  return fmt::format("Clang {}.{}.{}", __clang_major__, __clang_minor__, __clang_patchlevel__);
#else
  return fmt::format("GCC {}.{}.{}", __GNUC__, __GNUC_MINOR__, __GNUC_PATCHLEVEL__);
#endif
}

std::string cuda_text(const std::optional<CudaVersions>& cuda) {
  if (!cuda) return "without";
  return fmt::format("{}, kernels for {}, {}", cuda->runtime, cuda->architectures,
                     cuda->driver.empty() ? "no driver here" : "driver for " + cuda->driver);
}

/// What runs: version and commit of mxtape, compiler, and the libraries as they are found here.
Report version(std::string_view commit) {
  const std::string cpu = make_backend("cpu", {.gemm = GemmKernels::integer})
                              ->description()
                              .substr(std::string_view("cpu, ").size());
  const auto cuda = cuda_versions();
  Report out;
  out.line("mxtape {} (commit {})", MXTAPE_VERSION, commit);
  out.line("compiler  {}\nCPU       {}\nCUDA      {}\nHDF5      {}", compiler(), cpu, cuda_text(cuda),
           hdf5_version());
  out.put("version", MXTAPE_VERSION, "commit", commit, "compiler", compiler(), "cpu", cpu, "cuda",
          cuda ? object("runtime", cuda->runtime, "architectures", cuda->architectures, "driver",
                        Value(cuda->driver, "no driver on this machine"))
               : Value(nullptr, "built without CUDA"),
          "hdf5", hdf5_version());
  return out;
}

void print_version_of(const Words& words) {
  const bool json = words.size() == 2 && words[1] == "--json";
  require(words.size() == 1 || json, ExitCode::usage, "{} stands alone, or before --json", words[0]);
  version(source_commit()).print(json);
}

/// What `mxtape` without a word says.
[[noreturn]] void refuse_nothing() {
  const std::string program = shell_quoted(program_name());
  fmt::print(stderr,
             "mxtape: no command; want one of\n\n{0}\n`{1} help COMMAND` says more. From nothing to a "
             "trained model:\n  {1} corpus --out runs/demo.h5 && {1} train demo-mxfp4\n",
             list_of_commands(), program);
  throw SaidElsewhere(ExitCode::usage);
}

}  // namespace

void run_command_line(int argc, char** argv) {
  if (argc < 2) refuse_nothing();
  const Words words(argv + 1, argv + argc);
  if (asks_for_help(words[0])) return print_help(words);
  if (words[0] == "-V" || words[0] == "--version") return print_version_of(words);
  if (words[0].starts_with('-'))
    refuse_option("", {"--help", "-h", "--version", "-V"}, words[0],
                  "; a command comes before its options: mxtape COMMAND ...");
  run_command(known_command(words[0]), Words(words.begin() + 1, words.end()));
}

}  // namespace mxtape
