#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <sstream>

#include "core/files/atomic_file.h"
#include "program/records/run_folder.h"
#include "tests/program/program.h"
#include "tests/train/tiny_run.h"

namespace mxtape {
namespace {

using test::Program;

/// Token ids of another program, from its files to a trained model.
class IdsTest : public testing::Test {
 protected:
  IdsTest() {
    // The tiny text as its bytes: something to learn within a few steps.
    std::string ids;
    for (const char c : test::tiny_text()) ids += {c, '\0'};
    ids += std::string(vocabulary_end, 2);  // so that the bytes are no u32
    write_atomically(folder_ / "train.bin", ids);
    write_atomically(folder_ / "val.bin", std::string_view(ids).substr(ids.size() - 2000));
    EXPECT_EQ(run({"prepare", "--tokens", "u16", "train.bin", "--validation-file", "val.bin", "--vocabulary",
                   "300", "--out", "ids.h5"}),
              0)
        << output_;
    Recipe recipe = test::tiny_mxfp4_recipe(6);
    recipe.data.file = "ids.h5";
    write_atomically(folder_ / "tiny.toml", to_toml(recipe));
  }
  int run(const std::vector<std::string>& arguments) {
    Program program(folder_.path(), arguments);
    const int code = program.wait();
    output_ = program.output();
    return code;
  }
  bool says(const std::string& text) const { return output_.find(text) != std::string::npos; }
  /// Each word as an id of the vocabulary.
  static std::vector<int> ids_in(const std::string& text) {
    std::istringstream words(text);
    std::vector<int> ids;
    for (std::string word; words >> word;) {
      ids.push_back(std::stoi(word));
      EXPECT_EQ(std::to_string(ids.back()), word);
      EXPECT_LT(ids.back(), 300);
    }
    return ids;
  }

  static constexpr char vocabulary_end[] = "\x01\x01";  // id 257
  const TemporaryFolder folder_;
  std::string output_;
};

TEST_F(IdsTest, TrainToAModelThatEndsWithASampleOfIds) {
  ASSERT_EQ(run({"check", "tiny.toml"}), 0) << output_;
  EXPECT_TRUE(says("vocabulary 300")) << output_;
  ASSERT_EQ(run({"train", "tiny.toml", "--train.sample_tokens=12"}), 0) << output_;
  const std::string title = "sample, 12 tokens at temperature 0.8:\n";
  ASSERT_TRUE(says(title)) << output_;
  const auto begin = output_.find(title) + title.size();
  EXPECT_EQ(ids_in(output_.substr(begin, output_.find('\n', begin) - begin)).size(), 13u)
      << "the first of the validation split, and twelve";
}

TEST_F(IdsTest, GoOnFromACheckpointToTheSameBytes) {
  ASSERT_EQ(run({"train", "tiny.toml", "--train.save_every=3"}), 0) << output_;
  const auto last = folder_ / "runs/tiny/checkpoints/step_00000006.h5";
  const auto whole = read_whole(last);
  EXPECT_EQ(CheckpointFile(last).header().tokenizer.to_json(), R"({"kind":"ids","vocabulary":300})");
  std::filesystem::remove(last);
  ASSERT_EQ(run({"train", "tiny.toml", "--train.save_every=3", "--resume", "auto"}), 0) << output_;
  EXPECT_TRUE(says("at step 3"));
  EXPECT_TRUE(read_whole(last) == whole);
}

TEST_F(IdsTest, AreWhatSampleTakesAndPrints) {
  ASSERT_EQ(run({"train", "tiny.toml"}), 0) << output_;
  ASSERT_EQ(run({"sample", "runs/tiny", "--prompt", "116, 104 101", "--tokens", "20"}), 0) << output_;
  EXPECT_TRUE(output_.starts_with("116 104 101 ")) << output_;
  EXPECT_EQ(ids_in(test::without_times(output_)).size(), 23u) << output_;
  EXPECT_EQ(run({"sample", "runs/tiny", "--prompt", "the"}), int(ExitCode::data));
  EXPECT_TRUE(says("--prompt: 'the' is no token id; want numbers from 0 to 299")) << output_;
  EXPECT_EQ(run({"sample", "runs/tiny"}), int(ExitCode::usage)) << "a line break is no id";
  EXPECT_TRUE(says("--prompt: want token ids")) << output_;
}

TEST_F(IdsTest, AStopTextIsOfWholeIds) {
  ASSERT_EQ(run({"train", "tiny.toml"}), 0) << output_;
  const auto sampled = [&](const std::string& stop) {
    EXPECT_EQ(run({"sample", "runs/tiny", "--prompt", "116 104", "--tokens", "20", "--stop", stop}), 0)
        << output_;
    return ids_in(test::without_times(output_));
  };
  const std::vector<int> all = sampled("299 298 297");
  ASSERT_EQ(all.size(), 22u) << "which does not come";
  for (const std::vector<int>& stop :
       {std::vector{all[2] % 10}, {all[2] % 100}, {all[2]}, {all[7]}, {all[7], all[8]}}) {
    const auto first = std::search(all.begin() + 2, all.end(), stop.begin(), stop.end());
    EXPECT_EQ(sampled(fmt::format("{}", fmt::join(stop, " "))), std::vector<int>(all.begin(), first))
        << output_;
  }
  ASSERT_EQ(run({"sample", "runs/tiny", "--prompt", "116 104", "--tokens", "20", "--json", "--stop",
                 fmt::format("{}", all[9])}),
            0);
  const auto document = nlohmann::json::parse(output_);
  EXPECT_EQ(document["samples"][0]["text"],
            fmt::format("{}", fmt::join(all.begin() + 2, all.begin() + 9, " ")));
  EXPECT_EQ(document["samples"][0]["stop"], fmt::format("{}", all[9]));
  EXPECT_EQ(run({"sample", "runs/tiny", "--prompt", "116", "--stop", " "}), int(ExitCode::usage));
  EXPECT_EQ(run({"sample", "runs/tiny", "--prompt", "116", "--stop", "the"}), int(ExitCode::data));
  EXPECT_TRUE(says("--stop: 'the' is no token id; want numbers from 0 to 299")) << output_;
}

TEST_F(IdsTest, AreEvaluatedOnFilesOfTheSameVocabularyOnly) {
  ASSERT_EQ(run({"train", "tiny.toml"}), 0) << output_;
  ASSERT_EQ(run({"eval", "runs/tiny", "--precision", "mxfp8_e4m3"}), 0) << output_;
  EXPECT_TRUE(says("\nmxfp8_e4m3")) << output_;
  ASSERT_EQ(run({"prepare", "val.bin", "--tokens", "u16", "--vocabulary", "301"}), 0) << output_;
  EXPECT_EQ(run({"eval", "runs/tiny", "--data", "val.h5"}), int(ExitCode::data));
  EXPECT_TRUE(says("val.h5: its tokenizer (301 ids) is not the one that")) << output_;
}

TEST_F(IdsTest, FitAModelWithAPaddedVocabularyAndNoSmallerOne) {
  EXPECT_EQ(run({"train", "tiny.toml", "--model.vocabulary=320"}), 0) << output_;
  EXPECT_EQ(run({"train", "tiny.toml", "--model.vocabulary=299", "--name=small"}), int(ExitCode::data));
  EXPECT_TRUE(says("300")) << output_;
}

TEST_F(IdsTest, AreWhatTheMessageOfAMissingTokenFileLeadsTo) {
  EXPECT_EQ(run({"train", "tiny.toml", "--data.file=no.h5"}), int(ExitCode::data));
  EXPECT_TRUE(says("`mxtape prepare train.bin --tokens u16 --vocabulary N --out no.h5`")) << output_;
}

}  // namespace
}  // namespace mxtape
