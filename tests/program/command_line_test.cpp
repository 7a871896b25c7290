// What the command line takes and refuses before any command's work.
#include <algorithm>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

#include "data/npy.h"
#include "program/show/command.h"
#include "tests/program/program_fixture.h"

namespace mxtape::test {
namespace {

TEST_F(ProgramTest, AnOptionBeforeTheOperandsTakesOneValueAndLeavesThem) {
  write_npy(folder_ / "w.npy", std::vector<std::int64_t>{2, 2}, std::vector<float>{1, 2, 3, 4});
  ASSERT_EQ(run({"compare", "--format", "mxfp4", "w.npy"}), 0) << output_;
  EXPECT_TRUE(says("w.npy: 2 rows of 2"));
  ASSERT_EQ(run({"compare", "--format", "mxfp4", "--format", "nvfp4", "w.npy"}), 0) << output_;
  EXPECT_TRUE(says("mxfp4 ") && says("nvfp4 "));
  ASSERT_EQ(run({"train", "tiny.toml", "--train.steps=2"}), 0) << output_;
  ASSERT_EQ(run({"eval", "--precision", "mxfp4", "--precision", "recipe", "runs/tiny"}), 0) << output_;
  EXPECT_TRUE(says("\nmxfp4 ") && says("\nrecipe "));
}

TEST_F(ProgramTest, ASecondValueOfAnOptionIsAnErrorThatSaysHowToRepeatIt) {
  EXPECT_EQ(run({"eval", "runs/tiny", "--precision", "mxfp4", "nvfp4"}), int(ExitCode::usage));
  EXPECT_TRUE(
      says("eval: 'nvfp4' is one word too many; --precision takes one value a use: --precision A "
           "--precision B"));
  EXPECT_EQ(run({"compare", "--normal", "2x2", "--format", "mxfp4", "nvfp4"}), int(ExitCode::usage));
  EXPECT_TRUE(says("compare: 'nvfp4' and --normal 2x2; want a tensor"));
}

TEST_F(ProgramTest, TwoDashesSayThatOperandsFollow) {
  std::ofstream(folder_ / "-odd.txt") << "a cat sees a cat, a dog sees a dog. ";
  EXPECT_EQ(run({"prepare", "--out", "o.h5", "--", "-odd.txt"}), 0) << output_;
  EXPECT_EQ(run({"info", "--", "data.h5", "--"}), int(ExitCode::usage)) << "a second one is an operand";
}

TEST_F(ProgramTest, JsonThatIsDeclinedIsText) {
  ASSERT_EQ(run({"formats", "--json=false"}), 0) << output_;
  const std::string declined = output_;
  ASSERT_EQ(run({"formats"}), 0);
  EXPECT_EQ(output_, declined);
}

TEST(CommandLine, EveryOptionThatIsNamedIsThere) {
  for (const Command& command : all_commands()) {
    const Options options = command.bind().options;
    const auto has = [&](const std::string& name) {
      return std::any_of(options.begin(), options.end(), [&](const Option& o) { return o.key() == name; });
    };
    for (const Option& option : options)
      for (const auto* names : {&option.limits.needed, &option.limits.excluded})
        for (const auto& name : split(*names)) EXPECT_TRUE(has(name)) << command.name << " " << name;
  }
}

TEST_F(ProgramTest, HelpIsAWordToo) {
  ASSERT_EQ(run({"--help"}), 0);
  const std::string overview = output_;
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{"-h"}, {"help"}, {"help", "help"}, {"help", "--help"}}) {
    EXPECT_EQ(run(words), 0);
    EXPECT_EQ(output_, overview);
  }
  ASSERT_EQ(run({"train", "--help"}), 0);
  const std::string train = output_;
  ASSERT_NE(train, overview);
  ASSERT_EQ(run({"help", "train"}), 0);
  EXPECT_EQ(output_, train);
  EXPECT_EQ(run({"help", "trian"}), int(ExitCode::usage));
  EXPECT_TRUE(says("unknown command 'trian'; did you mean 'train'?"));
  EXPECT_EQ(run({"help", "train", "check"}), int(ExitCode::usage));
  EXPECT_TRUE(says("help: 'check' is one word too many"));
}

TEST(CommandLine, HelpIsInLinesOfEightyColumnsAndInWords) {
  std::map<std::string, std::string> texts{{"", help_of_program()}};
  for (const Command& command : all_commands())
    texts[std::string(command.name)] = help_of(command, command.bind().options);
  for (const auto& [command, text] : texts) {
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 80u) << line;
    for (const char* jargon : {"REQUIRED", "INT", "FLOAT", "Needs:", "Excludes:", ">="})
      EXPECT_EQ(text.find(jargon), std::string::npos) << command << ": " << jargon;
  }
  const std::string sweep = texts["sweep"];
  EXPECT_NE(sweep.find("  --jobs N              runs at a time; default: one for each core, on a GPU one\n"
                       "                        (1 to 1024)\n"),
            std::string::npos)
      << sweep;
}

TEST_F(ProgramTest, AMisspeltOptionBeforeTheCommandGetsItsNearestName) {
  EXPECT_EQ(run({"--versoin"}), int(ExitCode::usage));
  EXPECT_EQ(output_, "mxtape: unknown option '--versoin'; did you mean '--version'?\n");
  EXPECT_EQ(run({"--train.steps=3", "train", "tiny.toml"}), int(ExitCode::usage));
  EXPECT_TRUE(says("unknown option '--train.steps'"));
  EXPECT_TRUE(says("a command comes before its options"));
}

TEST_F(ProgramTest, TheVersionNamesCommitCompilerAndLibraries) {
  ASSERT_EQ(run({"-V"}), 0);
  const std::string text = output_;
  ASSERT_EQ(run({"--version"}), 0);
  EXPECT_EQ(output_, text);
  EXPECT_EQ(text.rfind("mxtape ", 0), 0u) << text;
  for (const char* label : {" (commit ", "\ncompiler  ", "\nCPU       ", "\nCUDA      ", "\nHDF5      "})
    EXPECT_TRUE(says(label));
  ASSERT_EQ(run({"--version", "--json"}), 0);
  const auto json = nlohmann::json::parse(output_);
  const auto field = [&](const char* name) { return json.at(name).get<std::string>(); };
  EXPECT_NE(text.find("mxtape " + field("version") + " (commit " + field("commit") + ")\n"),
            std::string::npos);
  EXPECT_NE(text.find("compiler  " + field("compiler") + "\n"), std::string::npos);
  EXPECT_NE(text.find("HDF5      " + field("hdf5") + "\n"), std::string::npos);
  EXPECT_NE(text.find("CPU       " + field("cpu") + "\n"), std::string::npos);
  EXPECT_EQ(json["cuda"].is_null(), text.find("CUDA      without") != std::string::npos);
}

TEST_F(ProgramTest, TheCommitIsTheOneOfTheSourceTreeOrUnknown) {
  ASSERT_EQ(run({"--version", "--json"}), 0);
  const std::string commit = nlohmann::json::parse(output_).at("commit");
  if (commit == "unknown") GTEST_SKIP() << "built without git";
  const std::string hash = commit.substr(0, commit.find('-'));
  EXPECT_GE(hash.size(), 10u);
  EXPECT_EQ(hash.find_first_not_of("0123456789abcdef"), std::string::npos) << commit;
  EXPECT_TRUE(commit == hash || commit == hash + "-dirty") << commit;
}

}  // namespace
}  // namespace mxtape::test
