// The program as a user runs it: what it refuses, with which code and which words.
#include "kernels/choose/make_backend.h"
#include "tests/program/program_fixture.h"

namespace mxtape::test {
namespace {

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

TEST_F(ProgramTest, APlotsNameIsOneWithoutEnding) {
  for (const char* name : {"loss.svg", "loss.png", "pictures/", ".", ".."}) {
    EXPECT_EQ(run({"plot", "runs/tiny", "--out", name}), int(ExitCode::usage));
    EXPECT_TRUE(says(fmt::format("--out '{}': want the name of the files without .svg and .png", name)));
  }
  ASSERT_EQ(run({"train", "tiny.toml", "--train.steps=2"}), 0) << output_;
  std::filesystem::copy(folder_ / "runs/tiny/metrics.jsonl", folder_ / "mine.svg");
  EXPECT_EQ(run({"plot", "mine.svg", "--out", "mine"}), int(ExitCode::usage));
  EXPECT_TRUE(says("mine.svg: this command reads or writes that file already"));
  EXPECT_EQ(run({"plot", "runs/tiny", "--difference", "mine.svg", "--out", "mine"}), int(ExitCode::usage));
}

TEST_F(ProgramTest, AnOptionWithoutAValueIsRefused) {
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{"train", "tiny.toml", "--resume", ""},
        {"train", "tiny.toml", "--from", "", "--name=b"},
        {"eval", "runs/tiny", "--text", ""},
        {"plot", "runs/tiny", "--difference", ""},
        {"sample", "runs/tiny", "--stop", ""},
        {"prepare", "--out=", "data.h5", "a.txt", "--force"},
        {"train", ""}}) {
    EXPECT_EQ(run(words), int(ExitCode::usage)) << output_;
    EXPECT_TRUE(says("nothing is given; want a value, or leave it out")) << output_;
  }
}

TEST_F(ProgramTest, AFlameGraphIsNotWrittenOverWhatIsRead) {
  write_atomically(folder_ / "top.toml", std::string("extends = 'tiny.toml'\n"));
  for (const char* file : {"top.toml", "tiny.toml", "data.h5"}) {
    EXPECT_EQ(run({"profile", "top.toml", "--steps", "1", "--flame", file, "--force"}), int(ExitCode::usage));
    EXPECT_TRUE(says(std::string(file) + ": this command reads or writes that file already")) << output_;
  }
  write_atomically(folder_ / "mine", std::string("text"));
  EXPECT_EQ(run({"profile", "top.toml", "--steps", "1", "--flame", "mine"}), int(ExitCode::usage));
  EXPECT_EQ(read_whole_text(folder_ / "mine"), "text");
  EXPECT_EQ(run({"profile", "top.toml", "--steps", "1", "--flame", "mine", "--force"}), 0) << output_;
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

TEST_F(ProgramTest, WithoutARecipeTrainAndCheckSayWhatThereIs) {
  for (const std::string command : {"train", "check"}) {
    EXPECT_EQ(run({command}), int(ExitCode::usage));
    EXPECT_TRUE(says("mxtape: no recipe; want one, as in `mxtape train demo-mxfp4`; `mxtape recipes` lists"));
  }
}

TEST_F(ProgramTest, AListOfLayersIsToldToBeOneText) {
  write_atomically(folder_ / "list.toml",
                   std::string("extends = 'tiny.toml'\n[[precision.rules]]\nformat = 'mxfp6'\n"
                               "layers = ['blocks.0.*', 'head']\n"));
  EXPECT_EQ(run({"train", "list.toml"}), int(ExitCode::usage));
  EXPECT_TRUE(
      says("layers = [ 'blocks.0.*', 'head' ]; want one pattern of layer names, or several joined by '|' in "
           "one text"));
}

TEST_F(ProgramTest, AWordOfTenKilobytesIsNotRepeatedWhole) {
  const std::string much(10'000, 'x');
  for (const std::string word :
       {"--precision.weights=", "--schedule.kind=", "--optim.beta1=", "--train.steps=", "--model.kind=",
        "--compute.device=", "--precision.rules=", "--seed="}) {
    EXPECT_NE(run({"train", "tiny.toml", word + much}), 0);
    EXPECT_LT(output_.size(), 2100u) << word << output_;
  }
  for (const std::string key : {"layers", "slots", "format"}) {
    const std::string value = key == "slots" ? "['" + much + "']" : "'" + much + "'";
    const std::string format = key == "format" ? "" : "format = 'mxfp6'\n";
    write_atomically(folder_ / "much.toml",
                     "extends = 'tiny.toml'\n[[precision.rules]]\n" + format + key + " = " + value + "\n");
    EXPECT_EQ(run({"train", "much.toml"}), int(ExitCode::usage));
    EXPECT_LT(output_.size(), 2100u) << key << output_;
  }
}

TEST_F(ProgramTest, AMisspeltCommandOrABadOptionEndsWithExit2AndAHint) {
  EXPECT_EQ(run({"trian", "tiny.toml"}), int(ExitCode::usage));
  EXPECT_TRUE(says("did you mean 'train'?"));
  EXPECT_EQ(run({"sample", "runs/tiny", "--temperature", "nan"}), int(ExitCode::usage));
  EXPECT_TRUE(says("--temperature: 'nan', want a finite number of at least 0"));
  EXPECT_TRUE(says("`mxtape sample --help`"));
}

TEST_F(ProgramTest, ANameThatNoFolderShouldHaveEndsWithExit2) {
  for (const auto& name : {std::string(), std::string("a\tb"), std::string("a\x1b[31mb"), std::string(" "),
                           std::string("a "), std::string("a/b"), std::string(256, 'x')}) {
    EXPECT_EQ(run({"train", "tiny.toml", "--name=" + name}), int(ExitCode::usage)) << name;
    EXPECT_TRUE(says("no tab, line break or other control character"));
  }
  EXPECT_FALSE(std::filesystem::exists(folder_ / "runs"));
  EXPECT_EQ(run({"check", "tiny.toml", "--name=" + std::string(255, 'x')}), 0) << output_;
}

TEST_F(ProgramTest, WithoutAWordItListsItsCommandsAndEndsWithExit2) {
  EXPECT_EQ(run({}), int(ExitCode::usage));
  for (const char* text : {"mxtape: no command", "\n  train  ", "\n  formats  ", "mxtape train demo-mxfp4"})
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

TEST_F(ProgramTest, AllowChangeTakesOneWordAndOnlyWhereARunGoesOn) {
  EXPECT_EQ(run({"train", "tiny.toml", "--allow-change", "optim"}), int(ExitCode::usage));
  EXPECT_TRUE(says("--resume auto"));
  EXPECT_EQ(run({"train", "--resume", "auto", "--allow-change", "optim.lr", "tiny.toml"}),
            int(ExitCode::usage));
  EXPECT_TRUE(says("--allow-change: 'optim.lr' is no key or section of a recipe"));
  EXPECT_EQ(run({"train", "--resume", "auto", "--allow-change", "data.file", "tiny.toml"}),
            int(ExitCode::usage));
  EXPECT_TRUE(says(
      "--allow-change: data.file may always differ, as it changes no number; leave it out, or name data"));
  EXPECT_EQ(run({"train", "--resume", "auto", "--allow-change", "optim", "tiny.toml", "--seed=7"}), 0)
      << output_;
}

TEST_F(ProgramTest, AFolderThatCannotBeMadeEndsWithExit6) {
  EXPECT_EQ(run({"train", "tiny.toml", "--train.out=tiny.toml"}), int(ExitCode::resource));
  EXPECT_TRUE(says("tiny.toml/tiny"));
}

TEST_F(ProgramTest, AnOptionThatACommandDoesNotHaveGetsItsNearestName) {
  EXPECT_EQ(run({"sample", "runs/tiny", "--token", "3"}), int(ExitCode::usage));
  EXPECT_TRUE(says("sample: unknown option '--token'; did you mean '--tokens'?"));
  EXPECT_EQ(run({"formats", "mxfp4", "mxfp6"}), int(ExitCode::usage));
  EXPECT_TRUE(says("formats: 'mxfp6' is one word too many"));
  EXPECT_EQ(run({"--version", "train"}), int(ExitCode::usage));
}

TEST_F(ProgramTest, ATextOfOneTokenIsRefusedByItsNameBeforeAnythingIsPrinted) {
  ASSERT_EQ(run({"train", "tiny.toml"}), 0) << output_;
  write_atomically(folder_ / "one.txt", std::string("t"));
  EXPECT_EQ(run({"eval", "runs/tiny", "--text", "one.txt"}), int(ExitCode::data));
  EXPECT_TRUE(says("one.txt: 1 tokens, so none that can be scored; want at least 2\n"))
      << "the tokenizer has no BOS";
  EXPECT_FALSE(says("0 scored"));
}

}  // namespace
}  // namespace mxtape::test
