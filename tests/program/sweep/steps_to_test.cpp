// When runs first have a loss: of a curve, over seeds, of a sweep, of `mxtape plot`.
#include "program/records/run_log.h"

#include "program/sweep/results.h"
#include "tests/program/sweep/sweep_fixture.h"

namespace mxtape::test {
namespace {

TEST(StepsTo, IsWhereTheLineBetweenTwoValidationsFirstHasTheLoss) {
  const std::vector<RunLog::Point> curve{{10, 4}, {20, 3}, {30, 3.5}, {40, 1}};
  EXPECT_EQ(steps_to(curve, 3.25), 17.5);
  EXPECT_EQ(steps_to(curve, 3), 20) << "of one that comes back, the first time";
  EXPECT_EQ(steps_to(curve, 2), 36);
  EXPECT_EQ(steps_to(curve, 5), 10) << "nothing is known before the first validation";
  EXPECT_EQ(steps_to(curve, 0.5), std::nullopt);
}

/// Two arms with three seeds; losses fall in a straight line from 4 at step 0, by these shares a step.
referee::Results falling(const std::array<double, 3>& baseline, const std::array<double, 3>& arm) {
  referee::Results r;
  r.asked.select = {1, 2, 3}, r.asked.steps_to = {2};
  r.arms.resize(2), r.points.resize(1), r.sizes.resize(1);
  for (const auto* shares : {&baseline, &arm})
    for (std::size_t k = 0; k < 3; ++k) {
      const double last = 4 - 100 * (*shares)[k];
      r.runs.push_back({.arm = shares == &arm, .seed = k + 1, .state = "finished", .loss = last});
      r.runs.back().curve = {{0, 4}, {100, last}};
      r.times.runs.push_back({.ms = shares == &arm ? 30 : 20});
    }
  return r;
}

TEST(StepsTo, OfAnArmHasTheMeanRatioOverSeedsWithStudentsInterval) {
  referee::Results r = falling({0.04, 0.04, 0.04}, {0.02, 0.04, 0.08});
  add_steps_to(r);
  ASSERT_EQ(r.steps_to.size(), 2u);
  EXPECT_NEAR(r.steps_to[0].mean.value(), 50, 1e-12);
  EXPECT_FALSE(r.steps_to[0].ratio) << "the baseline's to itself";
  EXPECT_NEAR(r.steps_to[1].mean.value(), (100 + 50 + 25) / 3.0, 1e-12);
  EXPECT_NEAR(r.times.seconds_to[1].mean.value(), 0.03 * (100 + 50 + 25) / 3.0, 1e-12);
  const auto& ratio = r.steps_to[1].ratio.value();  // logarithms log 2, 0, -log 2
  EXPECT_NEAR(ratio.value, 1, 1e-12);
  // t(0.95, 2) = 4.302652729749464; standard error log 2 / sqrt 3.
  EXPECT_NEAR(std::log(ratio.interval95.value()[1]), 4.302652729749464 * std::log(2) / std::sqrt(3), 1e-9);
  EXPECT_NEAR(r.times.seconds_to[1].ratio.value().value, 1.5, 1e-12);
}

TEST(StepsTo, CountsSeedsThatNeverHaveTheLossAndGivesNoRatioThen) {
  referee::Results r = falling({0.04, 0.04, 0.04}, {0.02, 0.01, 0.08});
  add_steps_to(r);
  EXPECT_EQ(r.steps_to[1].never, 1);
  EXPECT_EQ(r.steps_to[1].runs, 2);
  EXPECT_NEAR(r.steps_to[1].mean.value(), (100 + 25) / 2.0, 1e-12);
  EXPECT_FALSE(r.steps_to[1].ratio);
}

TEST(StepsTo, IsNotComparedWithABaselineThatBlewUp) {
  referee::Results r = falling({0.04, 0.04, 0.04}, {0.02, 0.04, 0.08});
  r.runs[1].spikes.push_back({.step = 90, .z = 9, .unlearned = 0.6});
  add_steps_to(r);
  EXPECT_FALSE(r.steps_to[1].ratio);
}

TEST_F(SweepCommand, StepsToALossAreInTableResultsPageAndOfEachRun) {
  const std::string text = read_whole_text(folder_ / "ask.toml");
  write_atomically(folder_ / "ask.toml", "steps_to = [9, 1e-3]\n" + text);
  ASSERT_EQ(run({"sweep", "ask.toml"}), 0) << output_;
  EXPECT_TRUE(says("times the baseline's"));
  const Json json = results();
  ASSERT_EQ(json["steps_to"].size(), 6u);
  EXPECT_EQ(json["steps_to"][0]["mean"], 4) << "the first validation";
  EXPECT_EQ(json["steps_to"][2]["ratio"]["value"], 1);
  EXPECT_EQ(json["steps_to"][5]["never"], 2);
  EXPECT_TRUE(json["times"]["seconds_to"][5]["mean"].is_null());
  // In turn with the baseline's: the mean of the two seeds' ratios.
  const Json &ms = json["times"]["runs"], &step = json["times"]["steps"][2];
  EXPECT_DOUBLE_EQ(step["ratio"].get<double>(), (ms[4]["ms"].get<double>() / ms[0]["ms"].get<double>() +
                                                 ms[5]["ms"].get<double>() / ms[1]["ms"].get<double>()) /
                                                    2);
  const std::string csv = read_whole_text(folder_ / "runs/ask/results.csv");
  EXPECT_TRUE(
      contains(csv, "seconds,steps_to_9,seconds_to_9,steps_to_0.001,seconds_to_0.001\nf32,1,finished,"))
      << csv;
  const std::string page = read_whole_text(folder_ / "runs/ask/report.html");
  EXPECT_TRUE(contains(page, "<h2>Steps to a loss</h2>") &&
              contains(page, "<td class=\"right\"><data value=\"2\">2</data></td>"))
      << page;

  ASSERT_EQ(run({"plot", "runs/ask/runs/f32/1", "--steps-to", "9"}), 0) << output_;
  EXPECT_TRUE(says("to [nats]"));
  EXPECT_EQ(run({"plot", "runs/ask/runs/f32/1", "--steps-to", "9", "--difference", "runs/ask/runs/f32/2"}),
            int(ExitCode::usage));
  for (const char* wrong : {"0", "[]", "[1, -2]", "[3, 3.0]", "\"low\""}) {
    write_atomically(folder_ / "ask.toml", fmt::format("steps_to = {}\n{}", wrong, text));
    EXPECT_EQ(run({"sweep", "ask.toml", "--check"}), int(ExitCode::usage)) << wrong;
    EXPECT_TRUE(says("want a validation loss in nats per token, > 0, or a list of different ones")) << output_;
  }
}

TEST_F(SweepCommand, AnArmsRecipeHasTheValueThatWasTuned) {
  write_sweep("f32", 6, "[tune]\nseeds = [9]\noptim.learning_rate = [1e-9, 0.008]\n");
  ASSERT_EQ(run({"sweep", "ask.toml"}), 0) << output_;
  const Json json = results();
  for (const Json& tune : json["tunes"]) EXPECT_EQ(tune["best"], tune["value"] == 0.008) << tune;
  for (const Json& one : json["arms"]) {
    const std::string recipe = one["recipe"];
    EXPECT_TRUE(contains(recipe, "learning_rate = 0.008 ")) << "the base has 0.01:\n" << recipe;
    EXPECT_EQ(recipe,
              read_whole_text(folder_ / "runs/ask/recipes" / (one["name"].get<std::string>() + ".toml")));
  }
}

TEST_F(SweepCommand, WithoutPointsFamiliesAreCorrectedAndTheBestConfirmed) {
  std::string text = read_whole_text(folder_ / "ask.toml");
  write_atomically(folder_ / "ask.toml", "confirm = [7, 8]\nbest = 1\ncontrasts = [\"4 bit - nearest\"]\n" +
                                             text + "[families]\nbits = [\"4 bit\", \"nearest\"]\n");
  ASSERT_EQ(run({"sweep", "ask.toml"}), 0) << output_;
  const Json json = results();
  EXPECT_EQ(json["runs"].size(), 6u + 4u);
  EXPECT_EQ(json["gaps"].size(), 2u + 1u);
  ASSERT_EQ(json["contrast_results"].size(), 2u);
  EXPECT_EQ(json["contrast_results"][0]["reason"], "");
  EXPECT_TRUE(
      json["contrast_results"][1]["reason"].get<std::string>().ends_with(": not chosen on the first seeds"));
  EXPECT_TRUE(says("not chosen on the first seeds"));
  write_atomically(folder_ / "ask.toml", text + "[[size]]\nname = \"s\"\n");
  EXPECT_EQ(run({"sweep", "ask.toml"}), int(ExitCode::usage)) << output_;
  EXPECT_TRUE(says("[[size]] without [points]; want both, or model keys in [set]"));
}

}  // namespace
}  // namespace mxtape::test
