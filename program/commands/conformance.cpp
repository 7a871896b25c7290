#include <fmt/format.h>

#include <cstdio>
#include <map>
#include <vector>

#include "core/error.h"
#include "kernels/choose/make_backend.h"
#include "program/command.h"
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

void run_conformance(const std::string& folder, const std::string& device) {
  require(!folder.empty(), ExitCode::usage, "conformance: no DIR; want the folder of a golden set: {}",
          conformance::where_sets_come_from);
  const auto backend = make_backend(device);
  const conformance::GoldenSet set(folder);
  std::vector<std::string> order;
  std::map<std::string, SuiteCount> suites;
  SuiteCount total;
  for (const conformance::Case& c : set.cases()) {
    if (!suites.count(c.suite())) order.push_back(c.suite());
    SuiteCount& suite = suites[c.suite()];
    const Outcome outcome = conformance::run_case(c, *backend);
    if (outcome.status == Outcome::Status::failed) {
      ++suite.failed;
      ++total.failed;
      std::puts(fmt::format("FAILED {}: {}", c.name, outcome.detail).c_str());
      continue;
    }
    const auto count =
        outcome.status == Outcome::Status::passed ? &SuiteCount::passed : &SuiteCount::not_applicable;
    ++(suite.*count);
    ++(total.*count);
    if (!outcome.detail.empty()) ++suite.notes[outcome.detail];
  }
  std::puts(fmt::format("{} cases of set {} on {}", set.cases().size(), set.title(), device).c_str());
  std::puts(fmt::format("{:<14} {:>6} {:>6} {:>14}", "suite", "passed", "failed", "not applicable").c_str());
  for (const std::string& name : order) print_line(name, suites.at(name));
  print_line("total", total);
  require(total.failed == 0, ExitCode::internal, "conformance: {} of {} cases failed", total.failed,
          set.cases().size());
  require(total.passed > 0, ExitCode::data, "conformance: nothing was compared: no case of {} applies here",
          folder);
}

}  // namespace

void add_conformance_command(CLI::App& app) {
  auto* command =
      app.add_subcommand("conformance", "Run a golden set through a device's kernels; exit 1 on a failure");
  auto folder = std::make_shared<std::string>(), device = std::make_shared<std::string>("cpu");
  command->add_option("DIR", *folder,
                      "Folder of a golden set: tests/golden, or your own (docs/conformance.md)");
  command->add_option("--device", *device, "cpu or cuda")->capture_default_str();
  command->callback([folder, device] { run_conformance(*folder, *device); });
}

}  // namespace mxtape
