// One row for each exit code of docs/exit_codes.md, and a way to reach it.
#include <functional>
#include <set>

#include "program/commands/exit_code_names.h"
#include "tests/conformance/sha256.h"
#include "tests/program/program_fixture.h"

namespace mxtape::test {
namespace {

class ExitCodes : public ProgramTest {
 protected:
  /// A run that is sent `signals`, each once what the program says shows that it has come so far.
  int stopped_by(std::initializer_list<std::pair<int, const char*>> signals) {
    std::filesystem::remove_all(folder_ / "runs/stopped");
    Program program(folder_.path(), {"train", "tiny.toml", "--name=stopped", "--train.steps=100000",
                                     "--train.batch_size=256", "--train.accumulation=8"});
    const auto recorded = [&] {
      std::error_code missing;
      const auto bytes = std::filesystem::file_size(folder_ / "runs/stopped/metrics.jsonl", missing);
      return !missing && bytes > 0;
    };
    while (program.running() && !recorded()) ::usleep(1000);
    for (const auto& [signal, text] : signals) {
      if (*text) program.printed(text);
      program.send(signal);
    }
    return program.wait();
  }
  /// A golden set of one case, whose expected value of the code 0 of e2m1 is 1 instead of 0.
  int conformance_with_a_wrong_value() {
    std::string blob;
    for (int code = 0; code < 16; ++code) blob += char(code);
    for (int code = 0; code < 16; ++code) {
      static const float magnitudes[] = {1, 0.5, 1, 1.5, 2, 3, 4, 6};
      const float value = (code < 8 ? 1.f : -1.f) * magnitudes[code % 8];
      blob.append(reinterpret_cast<const char*>(&value), sizeof value);
    }
    std::filesystem::create_directories(folder_ / "set");
    write_atomically(folder_ / "set/data.bin", std::string_view(blob));
    write_atomically(
        folder_ / "set/manifest.json",
        fmt::format(R"({{"schema":"mxgold-1","blob":"data.bin","blob_bytes":{},"blob_sha256":"{}","cases":[
 {{"name":"table/e2m1","kind":"decode_table","elem":"fp4_e2m1","codes":["u8",0,16],"dq":["u32",16,16]}}]}})",
                    blob.size(), conformance::sha256({blob.data(), blob.size()})));
    return run_program(folder_.path(), {"set"}, MXTAPE_CONFORMANCE).code;
  }
};

TEST_F(ExitCodes, EachOneIsReachedAndNoneIsThatThePageDoesNotTell) {
  struct Row {
    int code;
    const char* how;
    std::function<int()> reach;
  };
  ASSERT_EQ(run({"train", "tiny.toml", "--train.save_every=3"}), 0) << output_;
  const std::string third = checkpoint(3).string(), sixth = checkpoint(6).string();
  const Row rows[] = {
      {0, "a recipe that can run",
       [&] {
         return run({"check", "tiny.toml", "--name=other"});
       }},
      {1, "a golden set with a wrong value", [&] { return conformance_with_a_wrong_value(); }},
      {2, "a misspelt key",
       [&] {
         return run({"train", "tiny.toml", "--optim.betta1=0.5"});
       }},
      {3, "data that is not there",
       [&] {
         return run({"train", "tiny.toml", "--data.file=nowhere.h5"});
       }},
      {4, "a huge learning rate",
       [&] {
         return run({"train", "tiny.toml", "--name=other", "--optim.learning_rate=1e30",
                     "--optim.clip_norm=0", "--schedule.warmup_steps=0"});
       }},
      {5, "checkpoints of two steps",
       [&] {
         return run({"diff", third, sixth});
       }},
      {6, "a folder below a file",
       [&] {
         return run({"train", "tiny.toml", "--train.out=data.h5"});
       }},
      {75, "SIGTERM",
       [&] {
         return stopped_by({{SIGTERM, ""}});
       }},
      {130, "SIGINT twice",
       [&] {
         return stopped_by({{SIGINT, ""}, {SIGINT, "once more stops at once"}});
       }},
      {137, "SIGKILL",
       [&] {
         return stopped_by({{SIGKILL, ""}});
       }},
      {143, "SIGTERM twice",
       [&] {
         return stopped_by({{SIGTERM, ""}, {SIGTERM, "once more stops at once"}});
       }},
  };
  const std::string page = read_whole_text(MXTAPE_SOURCE "/docs/exit_codes.md");
  std::set<int> reached;
  for (const Row& row : rows) {
    EXPECT_EQ(row.reach(), row.code) << row.how << "\n" << output_;
    reached.insert(row.code);
    EXPECT_TRUE(
        contains(page, row.code < 128 ? fmt::format("| {} |", row.code) : fmt::format(" {}", row.code)))
        << "the page does not tell " << row.code;
  }
  reached.insert(int(ExitCode::peer));  // in devices/peer_faults_test.cpp
  for (const auto& row : exit_code_names)
    EXPECT_TRUE(reached.count(int(row.code))) << row.name << " is on the page, and no row reaches it";
  fmt::print("{} exit codes reached\n", reached.size());
}

}  // namespace
}  // namespace mxtape::test
