// mxtape-conformance DIR [--device D]: runs a golden set through a device's kernels, or an interop set
// (docs/conformance.md). Exit codes are the program's: docs/exit_codes.md.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <map>
#include <vector>

#include "core/current_error.h"
#include "core/text/short_lines.h"
#include "kernels/choose/make_backend.h"
#include "tests/conformance/interop.h"
#include "tests/conformance/outcome.h"

namespace mxtape {
namespace {

using conformance::Outcome;

struct SuiteCount {
  int passed = 0, failed = 0, not_applicable = 0;
  std::map<std::string, int> notes{};  // reasons, and parts of passed cases that were left out
};

void print_line(const std::string& name, const SuiteCount& s) {
  std::string line = fmt::format("{:<14} {:>6} {:>6} {:>14}", name, s.passed, s.failed, s.not_applicable);
  for (const auto& [note, count] : s.notes) line += fmt::format("  ({} {})", count, note);
  std::puts(line.c_str());
}

/// Counts outcomes by suite, in the order in which suites come, and prints them.
class Report {
 public:
  void add(const std::string& suite_name, const std::string& case_name, const Outcome& outcome) {
    if (!suites_.count(suite_name)) order_.push_back(suite_name);
    SuiteCount& suite = suites_[suite_name];
    if (outcome.status == Outcome::Status::failed) {
      ++suite.failed, ++total_.failed;
      return void(std::puts(fmt::format("FAILED {}: {}", case_name, outcome.detail).c_str()));
    }
    const auto count =
        outcome.status == Outcome::Status::passed ? &SuiteCount::passed : &SuiteCount::not_applicable;
    ++(suite.*count), ++(total_.*count);
    if (!outcome.detail.empty()) ++suite.notes[outcome.detail];
  }

  /// Throws Error(internal) if a case failed, Error(data) if none passed.
  void print(const std::string& headline, const std::string& folder) const {
    std::puts(headline.c_str());
    std::puts("suite          passed failed not applicable");
    for (const std::string& name : order_) print_line(name, suites_.at(name));
    print_line("total", total_);
    require(total_.failed == 0, ExitCode::internal, "{} of {} cases failed", total_.failed,
            total_.failed + total_.passed + total_.not_applicable);
    require(total_.passed > 0, ExitCode::data, "nothing was compared: no case of {} applies here", folder);
  }

 private:
  std::vector<std::string> order_;
  std::map<std::string, SuiteCount> suites_;
  SuiteCount total_;
};

void compare(const std::string& folder, const std::string& device) {
  const auto backend = make_backend(device);
  Report report;
  if (conformance::is_interop_set(folder)) {
    const auto cases = conformance::interop_cases(folder, device);
    for (const auto& c : cases) report.add(c.suite(), c.name, c.run());
    return report.print(fmt::format("{} cases of {} on {}", cases.size(), folder, device), folder);
  }
  const conformance::GoldenSet set(folder);
  for (const conformance::Case& c : set.cases())
    report.add(c.suite(), c.name, conformance::run_case(c, *backend));
  report.print(fmt::format("{} cases of set {} on {}", set.cases().size(), set.title(), device), folder);
}

int refuse(const std::string& why, ExitCode code) {
  std::fflush(stdout);
  std::fprintf(stderr, "mxtape-conformance: %s\n", with_short_lines(why).c_str());
  return int(code);
}

}  // namespace
}  // namespace mxtape

int main(int argc, char** argv) {
  using namespace mxtape;
  std::signal(SIGXFSZ, SIG_IGN);  // as in program/main.cpp
  CLI::App app{"Runs a golden set, or one of models and texts from elsewhere; exit 1 on a failure",
               "mxtape-conformance"};
  std::string folder, device = "cpu";
  app.add_option("DIR", folder,
                 "Folder of a set: tests/golden, tests/interop, or your own (docs/conformance.md)");
  app.add_option("--device", device, "cpu or cuda")->capture_default_str();
  try {
    app.parse(argc, argv);
    require(!folder.empty(), ExitCode::usage, "no DIR; want the folder of a golden set: {}",
            conformance::where_sets_come_from);
    compare(folder, device);
    const std::string why = std::fflush(stdout) == 0 ? "" : fmt::format(": {}", std::strerror(errno));
    require(why.empty() && !std::ferror(stdout), ExitCode::resource,
            "standard output: cannot be written{}; what was printed is not whole", why);
  } catch (const CLI::Success& e) {  // --help
    return app.exit(e);
  } catch (const CLI::ParseError& e) {
    return refuse(std::string(e.what()) + "; --help says what there is", ExitCode::usage);
  } catch (const std::exception&) {
    const Error error = current_error();
    return refuse(error.what(), error.code());
  }
  return 0;
}
