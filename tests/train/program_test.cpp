#include "tests/train/program.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <nlohmann/json.hpp>

#include "core/atomic_file.h"
#include "kernels/make_backend.h"
#include "tests/train/tiny_run.h"
#include "train/run_folder.h"

namespace mxtape {
namespace {

using test::Program;

/// A folder with data.h5 and tiny.toml, in which the program is run.
class ProgramTest : public testing::Test {
 protected:
  ProgramTest() {
    test::tiny_data().write(folder_ / "data.h5");
    Recipe recipe = test::tiny_mxfp4_recipe(6);
    recipe.data.file = "data.h5";
    write_atomically(folder_ / "tiny.toml", to_toml(recipe));
  }

  int run(std::vector<std::string> arguments) {
    Program program(folder_.path(), arguments);
    const int code = program.wait();
    output_ = program.output();
    return code;
  }
  testing::AssertionResult says(const std::string& text) const {
    if (output_.find(text) != std::string::npos) return testing::AssertionSuccess();
    return testing::AssertionFailure() << "no '" << text << "' in:\n" << output_;
  }
  std::filesystem::path checkpoint(std::int64_t step) const {
    return folder_ / fmt::format("runs/tiny/checkpoints/step_{:08}.h5", step);
  }
  /// A number after `label` in the output.
  double number_after(const std::string& label) const {
    const auto at = output_.find(label);
    if (at == std::string::npos) throw std::runtime_error("no '" + label + "' in:\n" + output_);
    return std::stod(output_.substr(at + label.size()));
  }

  const TemporaryFolder folder_;
  std::string output_;
};

// Built without CUDA, or on a machine without a GPU.
TEST_F(ProgramTest, AGpuThatIsNotThereIsOneMessageFromTrainAndAFindingOfCheck) {
  int want = 0;
  try {
    make_backend("cuda");
    GTEST_SKIP() << "there is a GPU";
  } catch (const Error& e) {
    want = int(e.code());
  }
  EXPECT_EQ(run({"train", "tiny.toml", "--compute.device=cuda"}), want);
  EXPECT_TRUE(output_.starts_with("mxtape: c") && output_.find('\n') == output_.size() - 1) << output_;
  EXPECT_FALSE(std::filesystem::exists(folder_ / "runs/tiny/recipe.toml"));
  EXPECT_EQ(run({"check", "tiny.toml", "--compute.device=cuda"}), want);
  EXPECT_TRUE(says("parameters")) << "the rest was looked at";
  EXPECT_TRUE(says("mxtape: c"));
}

TEST_F(ProgramTest, TrainsARecipeAndLeavesItsFilesAndAResult) {
  ASSERT_EQ(run({"train", "tiny.toml", "--train.sample_tokens=40"}), 0) << output_;
  for (const char* line : {"mxtape ", "seed 7", "parameters", "mxfp4 round=stochastic", "step 6/6 | loss ",
                           "validation loss ", "perplexity", "sample, 40 tokens"})
    EXPECT_TRUE(says(line));
  for (const char* file : {"recipe.toml", "device.txt", "metrics.jsonl", "events.out.tfevents.mxtape",
                           "checkpoints/step_00000006.h5"})
    EXPECT_TRUE(std::filesystem::exists(folder_ / "runs/tiny" / file)) << file;
}

TEST_F(ProgramTest, TheSameRecipeLeavesTheSameCheckpointOnOneThreadAndTwo) {
  ASSERT_EQ(run({"train", "tiny.toml", "--compute.threads=1"}), 0) << output_;
  ASSERT_EQ(run({"train", "tiny.toml", "--compute.threads=2", "--train.out=elsewhere"}), 0) << output_;
  EXPECT_TRUE(read_whole(checkpoint(6)) ==
              read_whole(folder_ / "elsewhere/tiny/checkpoints/step_00000006.h5"));
}

TEST_F(ProgramTest, EvaluatesTheLastCheckpointToTheLossThatTrainingReported) {
  ASSERT_EQ(run({"train", "tiny.toml", "--precision.weights=f32", "--precision.activations=f32"}), 0)
      << output_;
  const double trained = number_after("validation loss ");
  ASSERT_EQ(run({"eval", "runs/tiny", "--precision", "mxfp4", "recipe"}), 0) << output_;
  EXPECT_EQ(number_after("\nf32"), 32);
  std::istringstream row(output_.substr(output_.find("\nf32") + 4));
  double bits = 0, loss = 0;
  row >> bits >> loss;
  EXPECT_EQ(loss, trained);
  EXPECT_TRUE(says("\nmxfp4"));
  EXPECT_TRUE(says("\nrecipe"));
}

TEST_F(ProgramTest, SamplesBeyondTheContextAndTheSameTextForTheSameSeed) {
  ASSERT_EQ(run({"train", "tiny.toml"}), 0) << output_;
  ASSERT_EQ(run({"sample", "runs/tiny", "--prompt", "the cat", "--tokens", "50", "--seed", "3"}), 0)
      << output_;
  const std::string first = output_;
  EXPECT_EQ(first.size(), std::string("the cat").size() + 50 + 1);
  ASSERT_EQ(run({"sample", checkpoint(6).string(), "--prompt", "the cat", "--tokens", "50", "--seed", "3"}),
            0);
  EXPECT_EQ(output_, first);
  ASSERT_EQ(run({"sample", "runs/tiny", "--prompt", "the cat", "--tokens", "50", "--seed", "4"}), 0);
  EXPECT_NE(output_, first);
  const std::string second = output_;
  ASSERT_EQ(
      run({"sample", "runs/tiny", "--prompt", "the cat", "--tokens", "50", "--seed", "3", "--samples", "2"}),
      0);
  EXPECT_EQ(output_, first + "----\n" + second);
}

TEST_F(ProgramTest, APlotsNameIsOneWithoutEnding) {
  for (const char* name : {"", "loss.svg", "loss.png", "pictures/", ".", ".."}) {
    EXPECT_EQ(run({"plot", "runs/tiny", "--out", name}), int(ExitCode::usage));
    EXPECT_TRUE(says(fmt::format("--out '{}': want the name of the files without .svg and .png", name)));
  }
}

TEST_F(ProgramTest, ASeedOrCountThatIsNoWholeNumberOrDoesNotFitIsRefused) {
  for (const char* number :
       {"-1", "+1", "010", "1e3", "0x1", "", "9223372036854775808", "18446744073709551616"}) {
    for (const std::vector<std::string>& command : {std::vector<std::string>{"sample", "runs/tiny", "--seed"},
                                                    {"sample", "runs/tiny", "--tokens"},
                                                    {"eval", "runs/tiny", "--windows"},
                                                    {"corpus", "--seed"},
                                                    {"corpus", "--tales"},
                                                    {"compare", "--normal", "2x2", "--seed"},
                                                    {"quantize", "a.npy", "b.h5", "--seed"}}) {
      auto arguments = command;
      arguments.push_back(number);
      EXPECT_EQ(run(arguments), int(ExitCode::usage)) << output_;
      EXPECT_TRUE(says(fmt::format("{}: '{}', want a whole number from ", command.back(), number)));
    }
  }
  EXPECT_EQ(run({"corpus", "--tales", "1", "--seed", "9223372036854775807"}), 0) << output_;
}

TEST_F(ProgramTest, RefusesAPromptOutsideTheVocabularyWithExit3) {
  ASSERT_EQ(run({"train", "tiny.toml", "--train.steps=2"}), 0) << output_;
  EXPECT_EQ(run({"sample", "runs/tiny", "--prompt", "the cat!"}), int(ExitCode::data)) << output_;
}

TEST_F(ProgramTest, AMisspeltKeyEndsWithExit2AndTheNearestName) {
  EXPECT_EQ(run({"train", "tiny.toml", "--optim.betta1=0.5"}), int(ExitCode::usage));
  EXPECT_TRUE(says("optim.beta1"));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "runs"));
}

TEST_F(ProgramTest, AMisspeltCommandOrABadOptionEndsWithExit2AndAHint) {
  EXPECT_EQ(run({"trian", "tiny.toml"}), int(ExitCode::usage));
  EXPECT_TRUE(says("did you mean 'train'?"));
  EXPECT_EQ(run({"sample", "runs/tiny", "--temperature", "nan"}), int(ExitCode::usage));
  EXPECT_TRUE(says("--temperature: 'nan', want a number of at least 0"));
  EXPECT_TRUE(says("`mxtape sample --help`"));
}

TEST_F(ProgramTest, ANameThatNoFolderShouldHaveEndsWithExit2) {
  for (const auto& name : {std::string("a\tb"), std::string("a\x1b[31mb"), std::string(" "),
                           std::string("a "), std::string("a/b"), std::string(256, 'x')}) {
    EXPECT_EQ(run({"train", "tiny.toml", "--name=" + name}), int(ExitCode::usage)) << name;
    EXPECT_TRUE(says("no tab, line break or other control character"));
  }
  EXPECT_FALSE(std::filesystem::exists(folder_ / "runs"));
  EXPECT_EQ(run({"check", "tiny.toml", "--name=" + std::string(255, 'x')}), 0) << output_;
}

TEST_F(ProgramTest, WithoutAWordItListsItsCommandsAndEndsWithExit2) {
  EXPECT_EQ(run({}), int(ExitCode::usage));
  for (const char* text :
       {"mxtape: no command", "\n  train  ", "\n  conformance  ", "mxtape train demo-mxfp4"})
    EXPECT_TRUE(says(text));
}

TEST_F(ProgramTest, AMisspeltOptionOfTrainOrCheckIsCalledAnOption) {
  EXPECT_EQ(run({"train", "tiny.toml", "--resum", "auto"}), int(ExitCode::usage));
  EXPECT_TRUE(says("unknown option '--resum'; did you mean '--resume'?"));
  EXPECT_EQ(run({"check", "tiny.toml", "--sed=3"}), int(ExitCode::usage));
  EXPECT_TRUE(says("unknown option '--sed'; did you mean '--seed'?"));
}

TEST_F(ProgramTest, AStartThatFailsLeavesNoFolderWhereNoneWas) {
  EXPECT_EQ(run({"train", "tiny.toml", "--resume=nowhere.h5"}), int(ExitCode::data));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "runs")) << "not even the folder above";
  std::filesystem::create_directories(folder_ / "runs/tiny");
  EXPECT_EQ(run({"train", "tiny.toml", "--model.vocabulary=3"}), int(ExitCode::data)) << output_;
  EXPECT_TRUE(std::filesystem::exists(folder_ / "runs/tiny")) << "this one was there before";
  EXPECT_TRUE(std::filesystem::is_empty(folder_ / "runs/tiny"));
}

TEST_F(ProgramTest, AStartThatFailsLeavesAnEarlierRunWhereItWas) {
  ASSERT_EQ(run({"train", "tiny.toml"}), 0) << output_;
  EXPECT_EQ(run({"train", "tiny.toml", "--resume=no", "--compute.device=abacus"}), int(ExitCode::usage));
  EXPECT_EQ(run({"train", "tiny.toml", "--resume=no", "--train.batch_size=1048576", "--model.layers=1000"}),
            int(ExitCode::resource))
      << output_;
  EXPECT_TRUE(std::filesystem::exists(checkpoint(6)));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "runs/tiny/before-1"));
  ASSERT_EQ(run({"train", "tiny.toml", "--resume=no"}), 0) << output_;
  EXPECT_TRUE(says("the earlier run was moved to runs/tiny/before-1"));
}

TEST_F(ProgramTest, ASplitThatIsTooShortIsFoundBeforeTheFirstStep) {
  EXPECT_EQ(run({"train", "tiny.toml", "--model.context=3000", "--train.batch_size=1"}), int(ExitCode::data));
  EXPECT_TRUE(output_.starts_with("mxtape: data.h5: its validation split has ")) << output_;
  EXPECT_FALSE(std::filesystem::exists(folder_ / "runs"));
}

TEST_F(ProgramTest, MissingDataEndsWithExit3) {
  EXPECT_EQ(run({"train", "tiny.toml", "--data.file=nowhere.h5"}), int(ExitCode::data));
  EXPECT_TRUE(says("nowhere.h5"));
}

TEST_F(ProgramTest, ARunThatDivergesEndsWithExit4NamingStepAndTensorAndKeepsTheLastCheckpoint) {
  EXPECT_EQ(run({"train", "tiny.toml", "--optim.learning_rate=1e30", "--optim.clip_norm=0",
                 "--train.save_every=1", "--schedule.warmup_steps=0"}),
            int(ExitCode::diverged))
      << output_;
  EXPECT_TRUE(says("step 2: the "));
  EXPECT_TRUE(says("first seen in blocks.0.attn.qkv: gemm: c "));
  EXPECT_TRUE(says("not finite at element"));
  EXPECT_TRUE(says("the weights are still those after step 1"));
  EXPECT_TRUE(says("the last checkpoint is runs/tiny/checkpoints/step_00000001.h5"));
  EXPECT_TRUE(says("--train.save_every=1 --schedule.warmup_steps=0 --resume auto --allow-change optim"));
  EXPECT_TRUE(std::filesystem::exists(checkpoint(1)));
  EXPECT_FALSE(std::filesystem::exists(checkpoint(2)));
}

TEST_F(ProgramTest, ARunThatDivergesBeforeItsFirstCheckpointSaysSo) {
  EXPECT_EQ(run({"train", "tiny.toml", "--optim.learning_rate=1e30", "--optim.clip_norm=0",
                 "--schedule.warmup_steps=0"}),
            int(ExitCode::diverged));
  EXPECT_TRUE(says("no checkpoint yet: train.save_every is 0"));
}

TEST_F(ProgramTest, AllowChangeTakesOneWordAndOnlyWhereARunGoesOn) {
  EXPECT_EQ(run({"train", "tiny.toml", "--allow-change", "optim"}), int(ExitCode::usage));
  EXPECT_TRUE(says("--resume auto"));
  EXPECT_EQ(run({"train", "--resume", "auto", "--allow-change", "optim.lr", "tiny.toml"}),
            int(ExitCode::usage));
  EXPECT_TRUE(says("--allow-change: 'optim.lr' is no key or section of a recipe"));
  EXPECT_EQ(run({"train", "--resume", "auto", "--allow-change", "optim", "tiny.toml", "--seed=7"}), 0)
      << output_;
}

TEST_F(ProgramTest, EvalAwayFromTheDataSaysHowToNameIt) {
  ASSERT_EQ(run({"train", "tiny.toml"}), 0) << output_;
  std::filesystem::rename(folder_ / "data.h5", folder_ / "moved.h5");
  EXPECT_EQ(run({"eval", "runs/tiny", "--precision", "f32"}), int(ExitCode::data));
  EXPECT_TRUE(says("mxtape: data.h5: no such file here"));
  EXPECT_TRUE(says("--data FILE"));
  EXPECT_EQ(run({"eval", "runs/tiny", "--precision", "f32", "--data", "moved.h5"}), 0) << output_;
}

TEST_F(ProgramTest, AFolderThatCannotBeMadeEndsWithExit6) {
  EXPECT_EQ(run({"train", "tiny.toml", "--train.out=tiny.toml"}), int(ExitCode::resource));
  EXPECT_TRUE(says("tiny.toml/tiny"));
}

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

TEST_F(ProgramTest, AnOptionThatACommandDoesNotHaveGetsItsNearestName) {
  EXPECT_EQ(run({"sample", "runs/tiny", "--token", "3"}), int(ExitCode::usage));
  EXPECT_TRUE(says("sample: unknown option '--token'; did you mean '--tokens'?"));
  EXPECT_EQ(run({"formats", "mxfp4"}), int(ExitCode::usage));
  EXPECT_TRUE(says("formats: 'mxfp4' is one word too many"));
  EXPECT_EQ(run({"--version", "train"}), int(ExitCode::usage));
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
  for (int signal : {SIGINT, SIGTERM}) {
    Program program(folder_.path(), {"train", "tiny.toml", "--train.steps=100", "--resume=auto"});
    ASSERT_TRUE(program.printed("| loss ")) << program.output();
    program.send(signal);
    ASSERT_EQ(program.wait(), int(ExitCode::interrupted)) << program.output();
    output_ = program.output();
    EXPECT_TRUE(says(signal == SIGINT ? "stopped by SIGINT after step " : "stopped by SIGTERM after step "));
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

TEST_F(ProgramTest, CheckingEveryKernelLeavesTheSameBytes) {
  ASSERT_EQ(run({"train", "tiny.toml"}), 0) << output_;
  ::setenv("MXTAPE_CHECK", "1", 1);
  const int code = run({"train", "tiny.toml", "--train.out=checked"});
  ::unsetenv("MXTAPE_CHECK");
  ASSERT_EQ(code, 0) << output_;
  EXPECT_TRUE(read_whole(checkpoint(6)) == read_whole(folder_ / "checked/tiny/checkpoints/step_00000006.h5"));
}

TEST_F(ProgramTest, KilledAtAnyMomentItNeverLosesTheNewestCheckpoint) {
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
}  // namespace mxtape
