// The first SIGINT, SIGTERM or SIGHUP ends an import or export, and takes what is not finished away.
#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>

#include "core/error.h"
#include "tests/program/program.h"
#include "tests/support/foreign_gpt2.h"
#include "tests/support/temporary_folder.h"

namespace mxtape::test {
namespace {

namespace fs = std::filesystem;

TEST(UnfinishedExports, GoWithTheSignalThatStopsThemAndSoDoImports) {
  const TemporaryFolder folder;
  ForeignGpt2 model{.V = 60'000, .T = 64, .C = 96, .F = 384};  // 24 MB
  model.draw(1);
  model.write(folder / "hf");
  ASSERT_EQ(run_program(folder.path(), {"import", "hf", "-o", "m"}).code, 0);
  const auto is_temporary = [](const std::string& name) { return name.find(".tmp.") != std::string::npos; };
  const std::vector<std::vector<std::string>> commands{
      {"import", "hf", "-o", "other"},
      {"export", "m", "--to", "hf", "-o", "other", "--shard-size", "0.005"},
      {"export", "m", "--to", "safetensors", "-o", "other"},
      {"export", "m", "--to", "llmc", "-o", "other"}};
  for (const auto& command : commands)
    for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
      SCOPED_TRACE(fmt::format("{} {} {}, signal {}", command[0], command[2], command[3], signal));
      bool stopped = false;
      for (int attempt = 0; attempt < 20 && !stopped; ++attempt) {
        Program program(folder.path(), command);
        bool begun = false;
        while (program.running() && !begun) {
          const auto now = folder.names();
          begun = std::any_of(now.begin(), now.end(), is_temporary);
        }
        program.send(signal);
        stopped = program.wait() == 128 + signal;
        fs::remove_all(folder / "other");  // it was too quick
        const auto left = folder.names();
        EXPECT_TRUE(std::none_of(left.begin(), left.end(), is_temporary)) << testing::PrintToString(left);
      }
      EXPECT_TRUE(stopped);
    }
}

TEST(UnfinishedExports, AreCalledByTheNameThatWasGivenWhereTheyCannotBeWritten) {
  const TemporaryFolder folder;
  ForeignGpt2 model{.V = 600, .T = 64, .C = 96, .F = 384};
  model.draw(1);
  model.write(folder / "hf");
  ASSERT_EQ(run_program(folder.path(), {"import", "hf", "-o", "m"}).code, 0);
  for (const auto& [words, file] : {std::pair("import hf", "other/checkpoints/step_00000000.h5"),
                                    {"export m --to hf", "other/model.safetensors"},
                                    {"export m --to safetensors", "other"},
                                    {"export m --to llmc", "other"}}) {
    const std::string line = fmt::format("ulimit -f 100; exec '{}' {} -o other", MXTAPE_PROGRAM, words);
    const Result r = run_program(folder.path(), {"-c", line}, "/bin/bash");
    EXPECT_EQ(r.code, int(ExitCode::resource)) << r.output;
    EXPECT_TRUE(contains(r.output, fmt::format("mxtape: {}: cannot ", file))) << r.output;
    EXPECT_TRUE(contains(r.output, "File too large") && !contains(r.output, ".tmp.")) << r.output;
    EXPECT_FALSE(fs::exists(folder / "other"));
  }
}

}  // namespace
}  // namespace mxtape::test
