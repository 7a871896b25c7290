#pragma once
#include <algorithm>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "program/show/report.h"

// The commands of the program and their options, as rows: the command line, --help, the manual and the
// completion are made of them.
namespace mxtape {

/// What an option takes, and beside which others. Words have a blank between two.
struct Limits {
  double low = 0, high = std::numeric_limits<double>::infinity();
  std::string words{};               ///< the only ones; empty: any
  std::string needed{}, excluded{};  ///< other options
  bool required = false;
  std::function<std::string(const std::string& word)> check{};  ///< what is wrong with it

  Limits needs(std::string_view options) { return needed = options, *this; }
  Limits excludes(std::string_view options) { return excluded = options, *this; }
  Limits must_be_given() { return required = true, *this; }
};
inline Limits from(double low) { return {.low = low}; }
inline Limits within(double low, double high) { return {.low = low, .high = high}; }
inline Limits one_of(std::string_view words) { return {.words = std::string(words)}; }
inline Limits needs(std::string_view options) { return Limits().needs(options); }
inline Limits excludes(std::string_view options) { return Limits().excludes(options); }
std::vector<std::string> split(const std::string& words);

struct Option {
  using Field = std::variant<bool*, int*, std::int64_t*, std::uint64_t*, float*, double*, std::string*,
                             std::vector<std::string>*>;
  std::string name;  ///< "--step", "-o,--out"; by its place: "RUN", or "[RUN]", which may be left out
  Field field;       ///< of a list: may be repeated, one value a use
  std::string help;
  Limits limits{};

  bool by_place() const { return name[0] != '-'; }
  bool is_list() const { return std::holds_alternative<std::vector<std::string>*>(field); }
  bool is_real() const {
    return std::holds_alternative<double*>(field) || std::holds_alternative<float*>(field);
  }
  /// "RUN", "--out": without brackets and short names.
  std::string key() const;
  /// What --help shows: "1 to 1024"; the default, empty where the field holds none that could be given.
  std::string range_text() const, default_text() const;
};

/// What a command line says beside the fields of its options.
struct Given {
  std::vector<std::string> options;  ///< that were given
  std::vector<std::string> known;    ///< all long names, without dashes
  std::vector<std::string> rest;     ///< words of a command that takes the keys of a recipe
  bool json = false;
  bool operator()(std::string_view name) const { return std::ranges::find(options, name) != options.end(); }
};

using Options = std::vector<Option>;

struct Command {
  struct Bound {
    Options options;
    std::function<void(const Given&)> run;
  };
  std::string_view name;
  std::string help;
  std::function<Bound()> bind;  ///< options with fields of their own, and what runs with them
  std::string footer{};
  bool takes_keys = false;  ///< every --section.key=value of a recipe is an option too
};

/// On standard output; then what is wrong on standard error, as an Error.
void print(Report, const Given&);

/// Of a command with these arguments, whose run(arguments) or run(arguments, given) does the work. If that
/// returns a report, it is printed, and --json is an option.
template <class Arguments, class Run>
std::function<Command::Bound()> with(Options (*options)(Arguments&), Run run) {
  return [=] {
    struct All {
      Arguments own{};
      bool json = false;
    };
    const auto a = std::make_shared<All>();
    const auto result = [=](const Given& given) {
      if constexpr (std::is_invocable_v<Run, Arguments&, const Given&>)
        return run(a->own, given);
      else
        return run(a->own);
    };
    Command::Bound bound{options(a->own), {}};
    if constexpr (std::is_same_v<decltype(result(Given{})), Report>) {
      bound.options.push_back({"--json", &a->json, "print one JSON document instead (docs/json.md)"});
      bound.run = [=](Given given) {
        given.json = a->json;
        print(result(given), given);
      };
    } else {
      bound.run = result;
    }
    return bound;
  };
}

/// Refuses, before the work, what write_atomically would refuse after it, and an output that is one of
/// `others`: a file that is read, or another output. `over`: a file that is there may go.
void require_output(const std::string& out, const std::vector<std::string>& others, bool over);

/// --device, short for --compute.device, for the commands that take every key of a recipe; and of those that
/// read a checkpoint.
Option device_option(std::string& field);
Option device_of_run_option(std::string& field);
/// The words that were left over, and --device, as overrides for read_recipe; the command's own options are
/// what a misspelt one may have meant. Throws Error(usage) where --device and --compute.device name two
/// devices.
std::vector<std::string> overrides_of(const Given&, const std::string& device);

/// Each is one file of this folder's commands/.
namespace commands {
Command train(), check(), sweep(), sample(), eval(), post_training(), plot(), info(), inspect(), verify(),
    diff(), import(), export_(), replay(), prepare(), tokenizer(), corpus(), formats(), compare(), quantize(),
    recipes(), profile(), completion(), manual();
}
inline std::span<const Command> all_commands() {
  using namespace commands;
  static const std::vector<Command> all{
      train(),   check(),   sweep(),   sample(),   eval(),    post_training(), plot(),       info(),
      inspect(), verify(),  diff(),    import(),   export_(), replay(),        prepare(),    tokenizer(),
      corpus(),  formats(), compare(), quantize(), recipes(), profile(),       completion(), manual()};
  return all;
}

/// The commands and what each does.
std::string list_of_commands();

/// What an option takes: " N", " X", " TEXT", " {cols,rows}"; empty for a flag and a positional.
std::string value_of(const Option&);
/// "-o, --out"; by its place "FILE ...", if it takes several.
std::string shown_name(const Option&);

inline constexpr const char* help_help = "Print this help message and exit";
inline constexpr const char* version_help =
    "Version, commit, compiler and libraries; with --json after it as JSON";
/// What --help prints of a command; of the program.
std::string help_of(const Command&, const Options&);
std::string help_of_program();

}  // namespace mxtape
