#include <fmt/format.h>

#include <cstdio>
#include <map>
#include <vector>

#include "core/error.h"
#include "kernels/choose/make_backend.h"
#include "program/command.h"
#include "program/conformance/interop.h"
#include "program/conformance/outcome.h"

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
      ++suite.failed;
      ++total_.failed;
      std::puts(fmt::format("FAILED {}: {}", case_name, outcome.detail).c_str());
      return;
    }
    const auto count =
        outcome.status == Outcome::Status::passed ? &SuiteCount::passed : &SuiteCount::not_applicable;
    ++(suite.*count);
    ++(total_.*count);
    if (!outcome.detail.empty()) ++suite.notes[outcome.detail];
  }

  /// Throws Error(internal) if a case failed, Error(data) if none passed.
  void print(const std::string& headline, const std::string& folder) const {
    std::puts(headline.c_str());
    std::puts(
        fmt::format("{:<14} {:>6} {:>6} {:>14}", "suite", "passed", "failed", "not applicable").c_str());
    for (const std::string& name : order_) print_line(name, suites_.at(name));
    print_line("total", total_);
    require(total_.failed == 0, ExitCode::internal, "conformance: {} of {} cases failed", total_.failed,
            total_.failed + total_.passed + total_.not_applicable);
    require(total_.passed > 0, ExitCode::data,
            "conformance: nothing was compared: no case of {} applies here", folder);
  }

 private:
  std::vector<std::string> order_;
  std::map<std::string, SuiteCount> suites_;
  SuiteCount total_;
};

void run_conformance(const std::string& folder, const std::string& device) {
  require(!folder.empty(), ExitCode::usage, "conformance: no DIR; want the folder of a golden set: {}",
          conformance::where_sets_come_from);
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

}  // namespace

void add_conformance_command(CLI::App& app) {
  auto* command = app.add_subcommand(
      "conformance", "Run a golden set, or one of models and texts from elsewhere; exit 1 on a failure");
  auto folder = std::make_shared<std::string>(), device = std::make_shared<std::string>("cpu");
  command->add_option("DIR", *folder,
                      "Folder of a golden set: tests/golden, or your own (docs/conformance.md)");
  command->add_option("--device", *device, "cpu or cuda")->capture_default_str();
  command->callback([folder, device] { run_conformance(*folder, *device); });
}

}  // namespace mxtape
