// mxtape inspect: what its table leaves out.
#include <nlohmann/json.hpp>

#include "tests/program/program_fixture.h"

namespace mxtape::test {
namespace {

using InspectCommand = ProgramTest;

TEST_F(InspectCommand, RowsThatLoseNothingAreLeftOutAndTheWorstComeFirstWhenAskedFor) {
  ASSERT_EQ(run({"train", "tiny.toml", "--precision.head=f32"}), 0) << output_;
  ASSERT_EQ(run({"inspect", "runs/tiny", "--json"}), 0) << output_;
  std::map<std::string, double> in_use;
  int exact = 0;
  const auto json = nlohmann::json::parse(output_);
  for (const auto& operand : json["operands"]) {
    exact += operand["relative_rmse"] == 0;
    if (operand["in_use"] == true)
      in_use[operand["layer"].get<std::string>() + " " + operand["slot"].get<std::string>()] =
          operand["relative_rmse"].get<double>();
  }
  ASSERT_GT(exact, 0);
  ASSERT_EQ(run({"inspect", "runs/tiny", "--by", "layer"}), 0) << output_;
  EXPECT_TRUE(says(fmt::format("left out: {} rows in formats that lose nothing here\n", exact)));
  EXPECT_EQ(output_.find(" inf "), std::string::npos) << output_;
  EXPECT_TRUE(says("\nblocks.0.attn.qkv fprop.x "));
  ASSERT_EQ(run({"inspect", "runs/tiny", "--by", "layer", "--top", "2"}), 0) << output_;
  EXPECT_TRUE(says(fmt::format("left out: all but the 2 worst of {} places\n", in_use.size())));
  std::vector<std::pair<double, std::string>> worst;
  for (const auto& [place, error] : in_use) worst.emplace_back(-error, place);
  std::sort(worst.begin(), worst.end());
  const auto first = output_.find("\n" + worst[0].second + " "),
             second = output_.find("\n" + worst[1].second + " ");
  EXPECT_NE(second, std::string::npos) << output_;
  EXPECT_LT(first, second) << output_;
  EXPECT_EQ(output_.find("\n" + worst[2].second + " "), std::string::npos) << output_;
}

TEST_F(InspectCommand, ASlotsRankIsOfItsWorstFormatInUse) {
  ASSERT_EQ(run({"train", "tiny.toml", "--precision.head=bf16", "--precision.activations=mxfp4",
                 "--precision.gradients=mxfp4 round=stochastic"}),
            0)
      << output_;
  ASSERT_EQ(run({"inspect", "runs/tiny", "--top", "1"}), 0) << output_;
  EXPECT_TRUE(output_.find("\nwgrad.dy ") != output_.npos || output_.find("\ndgrad.dy ") != output_.npos)
      << output_;
}

TEST_F(InspectCommand, OscillationIsOfTheWeightsAsTheyAreRoundedAndLeftOutWhereEachStepTurnsThemElsewhere) {
  const auto oscillation_of_up = [&](const std::string& name, const char* rotation) {
    const std::string rules = fmt::format(
        "--precision.rules=[{{layers=\"blocks.0.mlp.up\", slots=[\"fprop.hadamard\"], format=\"{}\"}}]",
        rotation);
    EXPECT_EQ(run({"train", "tiny.toml", "--name=" + name, rules}), 0) << output_;
    EXPECT_EQ(run({"inspect", "runs/" + name, "--json"}), 0) << output_;
    std::map<std::string, double> ratios;
    const auto document = nlohmann::json::parse(output_);
    for (const auto& weight : document["weights"])
      ratios[weight["layer"].get<std::string>()] = weight["oscillation"].get<double>();
    EXPECT_TRUE(ratios.contains("blocks.1.mlp.up"));
    return ratios["blocks.0.mlp.up"];
  };
  EXPECT_GT(oscillation_of_up("turned", "hadamard=16 signs=run"), 0);
  EXPECT_EQ(oscillation_of_up("elsewhere", "hadamard=16 signs=step"), 0) << "it is not said";
}

}  // namespace
}  // namespace mxtape::test
