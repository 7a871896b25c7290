// The program as a user runs it: signals, kills, full disks and damaged files.
#include <sys/resource.h>

#include <nlohmann/json.hpp>

#include "tests/program/program_fixture.h"

namespace mxtape::test {
namespace {

TEST_F(ProgramTest, AFullDiskEndsWithExit6AndTheOldCheckpointIntact) {
  ASSERT_EQ(
      run({"train", "tiny.toml", "--train.steps=3", "--train.save_every=2", "--schedule.kind=constant"}), 0);
  const auto before = read_whole(checkpoint(3));
  // The limit is below a checkpoint's size and above the metrics'.
  const rlimit small{.rlim_cur = before.size() / 2, .rlim_max = RLIM_INFINITY};
  rlimit old{};
  getrlimit(RLIMIT_FSIZE, &old);
  setrlimit(RLIMIT_FSIZE, &small);
  const int code =
      run({"train", "tiny.toml", "--resume=auto", "--allow-change=train.steps", "--schedule.kind=constant"});
  setrlimit(RLIMIT_FSIZE, &old);
  EXPECT_EQ(code, int(ExitCode::resource)) << output_;
  EXPECT_TRUE(read_whole(checkpoint(3)) == before);
  EXPECT_EQ(list_checkpoints(folder_ / "runs/tiny").size(), 2u) << "steps 2 and 3, no part of step 6";
  ASSERT_EQ(
      run({"train", "tiny.toml", "--resume=auto", "--allow-change=train.steps", "--schedule.kind=constant"}),
      0)
      << output_;
}

TEST_F(ProgramTest, OutputThatCannotBeWrittenEndsWithExit6) {
  const rlimit small{.rlim_cur = 500, .rlim_max = RLIM_INFINITY};  // bytes of output.txt
  rlimit old{};
  getrlimit(RLIMIT_FSIZE, &old);
  setrlimit(RLIMIT_FSIZE, &small);
  std::vector<int> codes;
  for (const std::vector<std::string>& command : {std::vector<std::string>{"formats"},
                                                  {"corpus", "--tales", "1"},
                                                  {"recipes", "--reference"},
                                                  {"train", "--help"}})
    codes.push_back(run(command));
  setrlimit(RLIMIT_FSIZE, &old);
  EXPECT_EQ(codes, std::vector<int>(4, int(ExitCode::resource)));
}

TEST_F(ProgramTest, AClosedOutputStaysOutOfTheFilesAndIsReportedAtTheEnd) {
  ASSERT_EQ(run({"train", "tiny.toml", "--train.out=whole"}), 0) << output_;
  const std::string command = "cd '" + folder_.path().string() + "' && '" MXTAPE_PROGRAM "' train tiny.toml";
  const int status = std::system((command + " 2> output.txt >&-").c_str());
  EXPECT_EQ(WEXITSTATUS(status), int(ExitCode::resource));
  EXPECT_TRUE(read_whole(checkpoint(6)) == read_whole(folder_ / "whole/tiny/checkpoints/step_00000006.h5"));
  std::ifstream lines(folder_ / "runs/tiny/metrics.jsonl");
  for (std::string line; std::getline(lines, line);) EXPECT_TRUE(nlohmann::json::accept(line)) << line;
}

TEST_F(ProgramTest, ADamagedCheckpointIsRefusedWithExit3AndThePreviousOneIsUsed) {
  ASSERT_EQ(run({"train", "tiny.toml", "--train.save_every=3"}), 0) << output_;
  const auto good = read_whole(checkpoint(6));
  auto damaged = good;
  damaged[damaged.size() / 3] ^= std::byte{16};
  write_atomically(checkpoint(6), damaged);
  EXPECT_EQ(run({"eval", checkpoint(6).string()}), int(ExitCode::data));
  EXPECT_TRUE(says("content hash differs"));
  ASSERT_EQ(run({"train", "tiny.toml", "--train.save_every=3", "--resume", "auto"}), 0) << output_;
  EXPECT_TRUE(says("rejected runs/tiny/checkpoints/step_00000006.h5"));
  EXPECT_TRUE(says("resumed from runs/tiny/checkpoints/step_00000003.h5"));
  EXPECT_TRUE(read_whole(checkpoint(6)) == good) << "and the run ends as it did";
}

TEST_F(ProgramTest, InterruptedItSavesEndsWithExit75AndGoesOnToTheSameBytes) {
  ASSERT_EQ(run({"train", "tiny.toml", "--train.out=whole", "--train.steps=100"}), 0) << output_;
  for (const auto& [signal, name] :
       {std::pair{SIGINT, "SIGINT"}, {SIGTERM, "SIGTERM"}, {SIGUSR1, "SIGUSR1"}}) {
    Program program(folder_.path(), {"train", "tiny.toml", "--train.steps=100", "--resume=auto"});
    ASSERT_TRUE(program.printed("| loss ")) << program.output();
    program.send(signal);
    ASSERT_EQ(program.wait(), int(ExitCode::interrupted)) << program.output();
    output_ = program.output();
    EXPECT_TRUE(says(fmt::format("stopped by {} after step ", name)));
    EXPECT_TRUE(says("to go on: mxtape train tiny.toml --train.steps=100 --resume auto"));
  }
  ASSERT_EQ(run({"train", "tiny.toml", "--train.steps=100", "--resume=auto"}), 0) << output_;
  EXPECT_TRUE(read_whole(checkpoint(100)) == read_whole(folder_ / "whole/tiny/checkpoints/step_00000100.h5"));
  // Each step once in the metrics, whatever was interrupted.
  std::ifstream lines(folder_ / "runs/tiny/metrics.jsonl");
  std::int64_t steps = 0;
  for (std::string line; std::getline(lines, line);) {
    const auto record = nlohmann::json::parse(line);
    if (!record.contains("loss")) continue;
    EXPECT_EQ(record["step"], ++steps);
  }
  EXPECT_EQ(steps, 100);
}

TEST_F(ProgramTest, StoppedWhilePreparingOrSamplingItEndsAtOnceByThatSignalAndLeavesNoPartOfAFile) {
  std::string text;
  while (text.size() < (12u << 20)) text += tiny_text();
  write_atomically(folder_ / "large.txt", text);
  const auto leftovers = [&] {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(folder_.path()))
      if (entry.path().filename().string().starts_with("large.h5")) names.push_back(entry.path().filename());
    return names;
  };
  for (const char* line : {"read ", "vocabulary ", "validation "}) {
    Program program(folder_.path(), {"prepare", "large.txt"});
    ASSERT_TRUE(program.printed(line)) << program.output();
    program.send(SIGTERM);
    EXPECT_EQ(program.wait(), 128 + SIGTERM) << line;
    EXPECT_EQ(leftovers(), std::vector<std::string>{}) << line;
  }
  {  // while the file is being written
    Program program(folder_.path(), {"prepare", "large.txt"});
    while (program.running() && leftovers().empty()) ::usleep(50);
    program.send(SIGTERM);
    const int code = program.wait();
    const bool finished = std::filesystem::exists(folder_ / "large.h5");
    EXPECT_TRUE(code == 128 + SIGTERM || (code == 0 && finished)) << code;
    EXPECT_EQ(leftovers(), finished ? std::vector<std::string>{"large.h5"} : std::vector<std::string>{});
  }
  ASSERT_EQ(run({"train", "tiny.toml"}), 0) << output_;
  Program program(folder_.path(), {"sample", "runs/tiny", "--prompt", "the ", "--tokens", "10000000"});
  while (program.running() && program.output().size() < 10) ::usleep(100);
  program.send(SIGTERM);
  EXPECT_EQ(program.wait(), 128 + SIGTERM) << program.output().substr(0, 500);
}

TEST_F(ProgramTest, TheLineToGoOnWorksInAShell) {
  const std::string recipe = "it's a ü recipe.toml";
  std::filesystem::rename(folder_ / "tiny.toml", folder_ / recipe);
  Program program(folder_.path(),
                  {"train", recipe, "--train.steps=100", "--precision.weights=mxfp4 rule=even",
                   "--train.out=my runs", "--resume=auto", "--allow-change", "optim"});
  ASSERT_TRUE(program.printed("| loss ")) << program.output();
  program.send(SIGTERM);
  ASSERT_EQ(program.wait(), int(ExitCode::interrupted)) << program.output();
  output_ = program.output();
  const std::string label = "to go on: mxtape ";
  ASSERT_TRUE(says(label));
  std::string words = output_.substr(output_.find(label) + label.size());
  words.erase(words.find('\n'));
  EXPECT_NE(words.find(" --allow-change=optim "), std::string::npos) << words;
  const std::string go_on = "cd '" + folder_.path().string() + "' && '" MXTAPE_PROGRAM "' " + words;
  EXPECT_EQ(std::system((go_on + " > output.txt").c_str()), 0) << words;
  EXPECT_TRUE(std::filesystem::exists(folder_ / "my runs/tiny/checkpoints/step_00000100.h5"));
}

TEST_F(ProgramTest, ASecondSignalStopsAtOnceAndLeavesTheCheckpointsAsTheyAre) {
  Program program(folder_.path(), {"train", "tiny.toml", "--train.steps=100000", "--train.save_every=2000"});
  ASSERT_TRUE(program.printed("folder ")) << program.output();
  // From the first step on SIGINT is caught; a step takes a moment, so both arrive within one or two.
  const auto recorded = [&] {
    std::error_code missing;
    const auto bytes = std::filesystem::file_size(folder_ / "runs/tiny/metrics.jsonl", missing);
    return !missing && bytes > 0;
  };
  while (program.running() && !recorded()) ::usleep(100);
  program.send(SIGINT);
  ASSERT_TRUE(program.printed("once more stops at once")) << program.output();
  program.send(SIGINT);
  const int code = program.wait();
  EXPECT_TRUE(code == 128 + SIGINT || code == int(ExitCode::interrupted)) << code << program.output();
  for (const auto& file : list_checkpoints(folder_ / "runs/tiny")) EXPECT_NO_THROW(CheckpointFile{file});
}

TEST_F(ProgramTest, KilledAtEightMomentsItNeverLosesTheNewestCheckpoint) {
  std::filesystem::path newest_seen;
  for (unsigned kill = 0; kill < 8; ++kill) {
    Program program(folder_.path(), {"train", "tiny.toml", "--train.steps=100000", "--train.save_every=1",
                                     "--train.keep=1", "--resume=auto"});
    std::vector<std::filesystem::path> files;
    while (program.running() && (files.empty() || files.front() == newest_seen)) {
      ::usleep(1000);
      files = list_checkpoints(folder_ / "runs/tiny");
    }
    ::usleep(3'001 * kill);  // into a step, a save, a clean-up
    program.send(SIGKILL);
    ASSERT_EQ(program.wait(), 128 + SIGKILL) << program.output();
    files = list_checkpoints(folder_ / "runs/tiny");
    ASSERT_FALSE(files.empty());
    EXPECT_GT(files.front(), newest_seen);
    newest_seen = files.front();
    EXPECT_EQ(checkpoint(CheckpointFile(newest_seen).header().step), newest_seen)
        << "whole, and what its name says";
  }
}

}  // namespace
}  // namespace mxtape::test
