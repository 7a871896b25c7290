#include <nlohmann/json.hpp>

#include "core/error.h"
#include "tests/program/program_fixture.h"

namespace mxtape {
namespace {

using test::without_times;

/// A trained model, and texts drawn from it.
class SampleCommand : public test::ProgramTest {
 protected:
  void SetUp() override { ASSERT_EQ(run({"train", "tiny.toml"}), 0) << output_; }
  std::string sampled(std::vector<std::string> options) {
    options.insert(options.begin(), {"sample", "runs/tiny", "--prompt", "the cat"});
    EXPECT_EQ(run(options), 0) << output_;
    return without_times(output_);
  }
};

TEST_F(SampleCommand, SaysHowFastPromptAndTokensWere) {
  sampled({"--tokens", "30"});
  EXPECT_TRUE(says("\nmxtape: prompt 7 tokens in ")) << output_;
  EXPECT_TRUE(says(" tokens/s; then 29 tokens in ")) << output_;
  EXPECT_TRUE(output_.ends_with(" tokens/s\n")) << output_;
  sampled({"--tokens", "1"});
  EXPECT_FALSE(says("then")) << "nothing was computed behind the prompt";
  sampled({"--tokens", "0"});
  EXPECT_EQ(output_, "the cat\n");
}

TEST_F(SampleCommand, SeveralTextsAreThoseOfTheirSeedsInTurn) {
  const std::vector<std::string> options{"--tokens", "40", "--temperature", "0.8", "--min-p", "0.02"};
  std::string want;
  for (const char* seed : {"7", "8", "9"}) {
    auto alone = options;
    alone.insert(alone.end(), {"--seed", seed});
    want += (want.empty() ? "" : "----\n") + sampled(alone);
  }
  auto all = options;
  all.insert(all.end(), {"--seed", "7", "--samples", "3"});
  EXPECT_EQ(sampled(all), want);
}

TEST_F(SampleCommand, EndsATextBeforeAStopText) {
  const std::string whole = sampled({"--tokens", "60", "--temperature", "0"});
  const std::string drawn = whole.substr(std::string("the cat").size());
  const std::string stop = drawn.substr(20, 4);  // several tokens: each is a character
  const std::string before = drawn.substr(0, drawn.find(stop));
  EXPECT_EQ(sampled({"--tokens", "60", "--temperature", "0", "--stop", "#", "--stop", stop}),
            "the cat" + before + "\n");
  EXPECT_EQ(sampled({"--tokens", "60", "--temperature", "0", "--stop", "#"}), whole);
}

TEST_F(SampleCommand, PrintsOneDocumentWithJson) {
  const std::string text = sampled({"--tokens", "25", "--seed", "3"});
  const auto json = nlohmann::json::parse(
      sampled({"--tokens", "25", "--seed", "3", "--samples", "2", "--top-p", "0.999999", "--json"}));
  EXPECT_EQ(json.at("prompt"), "the cat");
  EXPECT_EQ(json.at("step"), 6);
  EXPECT_EQ(json.at("top_p"), 0.999999);
  EXPECT_TRUE(json.at("whole_passes").is_null());
  ASSERT_EQ(json.at("samples").size(), 2u);
  EXPECT_EQ(json.at("samples")[0].at("seed"), 3);
  EXPECT_EQ(json.at("samples")[0].at("tokens").size(), 25u);
  EXPECT_TRUE(json.at("samples")[0].at("stop").is_null());
  EXPECT_EQ(json.at("samples")[1].at("text").get<std::string>().size(), 25u);
  EXPECT_EQ(json.at("prompt_tokens"), 7);
  EXPECT_EQ(json.at("tokens"), 48);
  EXPECT_GT(json.at("seconds"), 0);
  const auto stopped = nlohmann::json::parse(
      sampled({"--tokens", "25", "--seed", "3", "--stop", text.substr(10, 1), "--json"}));
  EXPECT_EQ(stopped.at("samples")[0].at("stop"), text.substr(10, 1));
}

TEST_F(SampleCommand, SaysWhyKeysAndValuesAreNotKept) {
  EXPECT_FALSE(says("whole pass"));
  ASSERT_EQ(run({"train", "tiny.toml", "--name=nv", "--precision.activations=nvfp4"}), 0) << output_;
  ASSERT_EQ(run({"sample", "runs/nv", "--prompt", "the", "--tokens", "3"}), 0) << output_;
  EXPECT_TRUE(
      says("mxtape: sample: blocks.0.attn.out fprop.x is nvfp4, whose scale of the tensor sees all "
           "tokens of a pass: keys and values cannot be kept, each token takes a whole pass\n"))
      << output_;
}

TEST_F(SampleCommand, WholePassesDrawTheSameTextUpToTheContext) {
  EXPECT_EQ(sampled({"--tokens", "10", "--whole-passes"}), sampled({"--tokens", "10"}));
}

TEST_F(SampleCommand, RefusesValuesThatCannotBe) {
  const auto refused = [&](const std::string& option, const std::string& value) {
    EXPECT_EQ(run({"sample", "runs/tiny", option, value}), int(ExitCode::usage)) << option << " " << value;
    EXPECT_TRUE(says(option)) << output_;
  };
  for (const char* p : {"1.01", "-0.1", "nan", "x", ""}) refused("--top-p", p), refused("--min-p", p);
  for (const char* k : {"-1", "2.5", "nan"}) refused("--top-k", k);
  for (const char* n : {"0", "-3", "1000001"}) refused("--samples", n);
  EXPECT_EQ(run({"sample", "runs/tiny", "--seed", "9223372036854775806", "--samples", "3"}),
            int(ExitCode::usage));
  EXPECT_TRUE(says("with --samples 3: seeds go up from there; want the last at most 9223372036854775807"));
  sampled({"--seed", "9223372036854775806", "--samples", "2", "--tokens", "1"});
  refused("--temperature", "-1");
  refused("--stop", "");
}

}  // namespace
}  // namespace mxtape
