// The program as a user runs it: runs that are finished, changed or given another text.
#include "program/records/run_log.h"
#include "tests/program/program_fixture.h"

namespace mxtape::test {
namespace {

/// The words of what was printed that look like a file in a run's folder.
std::vector<std::string> paths_in(const std::string& output) {
  std::vector<std::string> paths;
  std::istringstream words(output);
  for (std::string word; words >> word;) {
    while (!word.empty() && std::string_view(",:;`").find(word.back()) != std::string_view::npos)
      word.pop_back();
    if (word.starts_with("runs/")) paths.push_back(word);
  }
  return paths;
}

TEST_F(ProgramTest, AFinishedRunThatIsResumedSaysSoAndLeavesEverythingAsItIs) {
  ASSERT_EQ(run({"train", "tiny.toml"}), 0) << output_;
  const auto metrics = read_whole(folder_ / "runs/tiny/metrics.jsonl");
  const auto recipe = read_whole(folder_ / "runs/tiny/recipe.toml");
  for (const std::vector<std::string>& more : {std::vector<std::string>{}, {"--train.keep=7"}}) {
    std::vector<std::string> words{"train", "tiny.toml", "--resume", "auto"};
    words.insert(words.end(), more.begin(), more.end());
    EXPECT_EQ(run(words), 0) << output_;
    EXPECT_TRUE(says("all 6 steps of runs/tiny/checkpoints/step_00000006.h5 are done: nothing was trained"));
    EXPECT_TRUE(says("--train.steps"));
    for (const auto& path : paths_in(output_)) EXPECT_TRUE(std::filesystem::exists(folder_ / path)) << path;
    EXPECT_TRUE(read_whole(folder_ / "runs/tiny/metrics.jsonl") == metrics);
    EXPECT_TRUE(read_whole(folder_ / "runs/tiny/recipe.toml") == recipe);
  }
  EXPECT_EQ(run({"train", "tiny.toml", "--resume=auto", "--train.steps=8", "--allow-change=train.steps"}), 0)
      << "as the sentence says";
  EXPECT_TRUE(std::filesystem::exists(checkpoint(8)));
}

TEST_F(ProgramTest, AFinishedRunTakesNoOtherPrecisionAndNamesNoFileThatIsNotThere) {
  ASSERT_EQ(run({"train", "tiny.toml"}), 0) << output_;
  EXPECT_EQ(
      run({"train", "tiny.toml", "--resume=auto", "--allow-change=precision", "--precision.weights=bf16"}),
      int(ExitCode::usage))
      << output_;
  EXPECT_TRUE(says("all 6 steps are done, so what differs from the checkpoint's recipe has no effect"));
  for (const auto& path : paths_in(output_)) EXPECT_TRUE(std::filesystem::exists(folder_ / path)) << path;
}

TEST_F(ProgramTest, ARunGoesOnWithItsOwnModelAsCheckSaysToo) {
  ASSERT_EQ(run({"train", "tiny.toml", "--train.steps=3"}), 0) << output_;
  for (const char* command : {"check", "train"})
    for (const char* key : {"model.width=64", "model.layers=3", "model.context=8", "model.tied_head=false"}) {
      EXPECT_EQ(run({command, "tiny.toml", "--resume=auto", "--allow-change=model",
                     "--allow-change=train.steps", std::string("--") + key}),
                2);
      EXPECT_TRUE(says(fmt::format("want these keys as they were:\n  {}: ",
                                   std::string_view(key).substr(0, std::string_view(key).find('=')))))
          << output_;
    }
}

TEST_F(ProgramTest, LossesCompareByTheContentOfTheDataAndNotByItsPath) {
  ASSERT_EQ(run({"train", "tiny.toml", "--name=a"}), 0) << output_;
  std::filesystem::copy(folder_ / "data.h5", folder_ / "copy.h5");
  ASSERT_EQ(run({"train", "tiny.toml", "--name=same", "--data.file=copy.h5"}), 0) << output_;
  ASSERT_EQ(run({"corpus", "--tales", "40", "--seed", "9", "--out", "data.h5", "--force"}), 0) << output_;
  ASSERT_EQ(run({"train", "tiny.toml", "--name=other"}), 0) << output_;
  const std::string remark = "losses of other texts, tokens or validation windows do not compare";
  run({"plot", "runs/a", "runs/same"});
  EXPECT_FALSE(says(remark)) << output_;
  run({"plot", "runs/a", "runs/other"});
  EXPECT_TRUE(says(remark)) << output_;
  for (const auto& [windows, name] : {std::pair("1", "fewer"), {"0", "all"}, {"1000000", "more"}})
    ASSERT_EQ(run({"train", "tiny.toml", fmt::format("--name={}", name),
                   fmt::format("--train.eval_windows={}", windows)}),
              0)
        << output_;
  run({"plot", "runs/all", "runs/fewer"});
  EXPECT_TRUE(says(remark)) << output_;
  run({"plot", "runs/all", "runs/more"});
  EXPECT_FALSE(says(remark)) << "all that there are: " << output_;
}

TEST_F(ProgramTest, AFinishedRunsCheckpointGivesABranchNothingToDoAndLeavesNoFolder) {
  ASSERT_EQ(run({"train", "tiny.toml"}), 0) << output_;
  EXPECT_EQ(run({"train", "tiny.toml", "--name=branch", "--resume", checkpoint(6).string()}), 0) << output_;
  EXPECT_TRUE(says("nothing was trained"));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "runs/branch"));
}

TEST_F(ProgramTest, AutomaticGemmsAreRecordedAsWhatTheyBecameAndKeptOnResumeAsCheckSays) {
  const std::string formats[] = {"--precision.weights=mxfp4", "--precision.activations=mxfp4",
                                 "--precision.gradients=mxfp4"};
  const auto train = [&](std::vector<std::string> more) {
    more.insert(more.begin(), {"train", "tiny.toml"});
    more.insert(more.end(), std::begin(formats), std::end(formats));
    return run(more);
  };
  ASSERT_EQ(train({"--train.steps=3", "--compute.gemm=auto"}), 0) << output_;
  EXPECT_TRUE(says("compute.gemm = auto is ")) << output_;
  const auto bytes = read_whole(folder_ / "runs/tiny/recipe.toml");
  const std::string recipe(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  const bool integer = recipe.find("gemm = \"integer\"") != std::string::npos;
  EXPECT_EQ(recipe.find("gemm = \"library\"") != std::string::npos, !integer) << recipe;
  const std::string other = integer ? "library" : "integer";
  const std::vector<std::string> on{"--train.steps=6", "--allow-change=train.steps", "--resume=auto"};
  auto with = [&](const std::string& gemm) {
    auto words = on;
    words.push_back("--compute.gemm=" + gemm);
    return train(words);
  };
  EXPECT_EQ(with(other), int(ExitCode::usage)) << "the other GEMMs add in another order";
  EXPECT_TRUE(says("allow it with --allow-change compute.gemm")) << output_;
  EXPECT_EQ(with("auto"), 0) << output_;
  EXPECT_TRUE(says("here, as in the checkpoint")) << output_;
  ASSERT_EQ(train({"--train.steps=3", "--name=other", "--compute.gemm=" + other}), 0) << output_;
  std::vector<std::string> check{"check", "tiny.toml", "--name=other", "--compute.gemm=auto"};
  check.insert(check.end(), std::begin(formats), std::end(formats));
  check.insert(check.end(), on.begin(), on.end());
  ASSERT_EQ(run(check), 0) << output_;
  EXPECT_EQ(says("integer GEMM, exact block sums"), other == "integer") << output_;
}

TEST_F(ProgramTest, AFormatOfAnotherSpellingIsNoChange) {
  ASSERT_EQ(run({"train", "tiny.toml", "--train.steps=3", "--precision.weights=mxfp6"}), 0) << output_;
  EXPECT_EQ(run({"train", "tiny.toml", "--train.steps=6", "--precision.weights=mxfp6_e3m2",
                 "--precision.gradients=e2m1 block=32 round=stochastic scale=e8m0", "--resume=auto",
                 "--allow-change=train.steps"}),
            0)
      << output_;
}

TEST_F(ProgramTest, ATextOfOtherCharactersIsRefusedWhateverIsAllowed) {
  ASSERT_EQ(run({"train", "tiny.toml", "--train.steps=3"}), 0) << output_;
  const auto refuses = [&](std::vector<std::string> more) {
    std::vector<std::string> words{"train",
                                   "tiny.toml",
                                   "--resume=auto",
                                   "--data.file=other.h5",
                                   "--allow-change=data",
                                   "--allow-change=train.steps"};
    words.insert(words.end(), more.begin(), more.end());
    EXPECT_EQ(run(words), int(ExitCode::data)) << output_;
    EXPECT_TRUE(says("other.h5: its tokenizer ("));
    EXPECT_TRUE(says("--tokenizer-of runs/tiny/checkpoints/step_00000003.h5"));
  };
  // As many characters, all but one of them others; and fewer, with the model's vocabulary given.
  std::string letters = "AEIOUBCDFGHJKLMNPQRSTVWXYZ";
  std::string other;
  letters.resize(std::size_t(tiny_data().tokenizer.size()) - 1);
  for (int i = 0; i < 4000; ++i) other += i % 7 ? letters[std::size_t(i) % letters.size()] : ' ';
  for (const auto& text : {other, std::string(4000, 'c') + "at"}) {
    write_atomically(folder_ / "other.txt", std::string_view(text));
    ASSERT_EQ(run({"prepare", "other.txt", "--force"}), 0) << output_;
    refuses({fmt::format("--model.vocabulary={}", tiny_data().tokenizer.size())});
  }
}

TEST_F(ProgramTest, ATextThatIsPreparedWithARunsTokenizerGoesOnWithItsModel) {
  ASSERT_EQ(run({"train", "tiny.toml", "--train.steps=3"}), 0) << output_;
  std::string cats;
  for (int i = 0; i < 500; ++i) cats += "cat dog ";
  write_atomically(folder_ / "cats.txt", std::string_view(cats));
  for (const std::string& run_or_file : {std::string("runs/tiny"), checkpoint(3).string()}) {
    ASSERT_EQ(run({"prepare", "cats.txt", "--force", "--tokenizer-of", run_or_file}), 0) << output_;
    EXPECT_TRUE(TokenFile::read(folder_ / "cats.h5").tokenizer == tiny_data().tokenizer);
  }
  EXPECT_EQ(run({"train", "tiny.toml", "--resume=auto", "--data.file=cats.h5", "--allow-change=data",
                 "--allow-change=train.steps"}),
            0)
      << output_;
  EXPECT_TRUE(std::filesystem::exists(checkpoint(6)));

  write_atomically(folder_ / "birds.txt", std::string_view("cat dog\nbird"));
  EXPECT_EQ(run({"prepare", "cats.txt", "birds.txt", "--tokenizer-of=runs/tiny", "--out=b.h5"}),
            int(ExitCode::data));
  EXPECT_TRUE(says("birds.txt: character '\n' (U+000A) at byte 7 is not in the vocabulary of"));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "b.h5"));
  EXPECT_EQ(run({"prepare", "cats.txt", "--tokenizer-of=runs/tiny", "--tokenizer=byte"}),
            int(ExitCode::usage));
  EXPECT_EQ(run({"prepare", "cats.txt", "--force", "--tokenizer-of=runs/none"}), int(ExitCode::data));
}

TEST_F(ProgramTest, AChangeInPlaceKeepsTheRecipeOfTheStepsBefore) {
  ASSERT_EQ(run({"train", "tiny.toml", "--train.steps=3"}), 0) << output_;
  const auto before = read_whole(folder_ / "runs/tiny/recipe.toml");
  ASSERT_EQ(run({"train", "tiny.toml", "--resume=auto", "--allow-change=train.steps", "--allow-change=optim",
                 "--optim.learning_rate=0.5"}),
            0)
      << output_;
  EXPECT_TRUE(read_whole(folder_ / "runs/tiny/recipe.until_step_00000003.toml") == before);
  const auto now = read_whole(folder_ / "runs/tiny/recipe.toml");
  EXPECT_NE(std::string(reinterpret_cast<const char*>(now.data()), now.size()).find("learning_rate = 0.5"),
            std::string::npos);
}

TEST_F(ProgramTest, DeviceIsShortForComputeDevice) {
  EXPECT_EQ(run({"check", "tiny.toml", "--device", "cpu"}), 0) << output_;
  EXPECT_TRUE(says("ready: mxtape train tiny.toml --device cpu\n"));
  EXPECT_EQ(run({"check", "tiny.toml", "--device=cpu", "--compute.device=cpu"}), 0) << output_;
  EXPECT_EQ(run({"train", "tiny.toml", "--device", "cpu", "--compute.device=cuda"}), int(ExitCode::usage));
  EXPECT_TRUE(says("--device cpu and --compute.device=cuda contradict each other"));
  EXPECT_EQ(run({"train", "tiny.toml", "--device", "abacus"}), int(ExitCode::usage));
  EXPECT_TRUE(says("no device 'abacus'"));
  EXPECT_EQ(run({"train", "tiny.toml", "--device", "cpu"}), 0) << output_;
}

TEST_F(ProgramTest, WhatItRecommendsBeginsWithTheWordThatStartedIt) {
  const auto odd = folder_ / "a program's name";
  std::filesystem::create_symlink(MXTAPE_PROGRAM, odd);
  const auto in_folder = [&](const std::string& command) {
    const int code =
        std::system(("cd '" + folder_.path().string() + "' && " + command + " > output.txt 2>&1").c_str());
    std::stringstream text;
    text << std::ifstream(folder_ / "output.txt").rdbuf();
    output_ = text.str();
    return WEXITSTATUS(code);
  };
  const std::string word = "'./a program'\\''s name'";
  ASSERT_EQ(in_folder(word + " check tiny.toml"), 0) << output_;
  const std::string label = "ready: ";
  ASSERT_TRUE(says(label + word + " train tiny.toml\n"));
  std::string command = output_.substr(output_.find(label) + label.size());
  command.erase(command.find('\n'));
  EXPECT_EQ(in_folder(command), 0) << command;
  EXPECT_TRUE(std::filesystem::exists(checkpoint(6)));
  EXPECT_EQ(in_folder(word + " train tiny.toml --data.file=no.h5"), int(ExitCode::data));
  EXPECT_TRUE(says("`" + word + " prepare TEXT --out no.h5`"));
}

TEST_F(ProgramTest, ABrokenLineOfTheRecordsIsSaidOnAResumeAndCostsNoOtherRecord) {
  ASSERT_EQ(run({"train", "tiny.toml", "--train.keep_every=4"}), 0) << output_;
  std::filesystem::remove(checkpoint(6));
  const auto log = folder_ / "runs/tiny/metrics.jsonl";
  std::string text = read_whole_text(log);
  text[text.find("{\"step\":2,")] = '#';
  write_atomically(log, text);
  ASSERT_EQ(run({"train", "tiny.toml", "--train.keep_every=4", "--resume=auto"}), 0) << output_;
  EXPECT_TRUE(
      says("runs/tiny/metrics.jsonl:2: this line is no record; moved to runs/tiny/metrics.broken.txt"));
  std::vector<std::int64_t> steps;
  for (const auto& point : read_run_log(folder_ / "runs/tiny").train) steps.push_back(point.step);
  EXPECT_EQ(steps, (std::vector<std::int64_t>{1, 3, 4, 5, 6}));
}

TEST_F(ProgramTest, TheResultSaysHowMuchOfTheSplitItIsOn) {
  ASSERT_EQ(run({"train", "tiny.toml"}), 0) << output_;
  const auto all = Windows(tiny_data().validation, 16).count();
  EXPECT_TRUE(says(fmt::format(", on the first 8 of {} windows\n", all)));
  EXPECT_TRUE(says(fmt::format("validation  8 of {} windows, 128 tokens, at the end, ", all)));
  ASSERT_EQ(run({"train", "tiny.toml", "--resume=no", "--train.eval_windows=all"}), 0) << output_;
  EXPECT_FALSE(says("windows\n"));
}

}  // namespace
}  // namespace mxtape::test
