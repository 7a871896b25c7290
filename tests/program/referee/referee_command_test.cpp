// mxtape sweep with [points]: stages, trunks and decays, parts, stops, and results.json read back.
#include <regex>

#include "program/sweep/results.h"
#include "tests/program/only_path.h"
#include "tests/program/sweep/sweep_fixture.h"

namespace mxtape::test {
namespace {

class RefereeCommand : public SweepCommand {
 protected:
  RefereeCommand() { write_question(""); }

  /// Two sizes, of 8 and 19, and of 15 and 37 steps.
  void write_question(const std::string& more, const std::string& points = "decay = 0.3\n") const {
    write_atomically(
        folder_ / "points.toml",
        "base = \"tiny.toml\"\nbaseline = \"f32\"\nselect = [1]\ntolerance = 0.5\n" + more +
            "[points]\ntokens_per_parameter = [0.2, 0.5]\n" + points +
            "[[size]]\nname = \"s\"\n[[size]]\nname = \"m\"\nset.model.layers = 2\n"
            "[set]\nmodel.layers = 1\nmodel.width = 24\nmodel.dropout = 0.1\ntrain.eval_every = 3\n"
            "[[arm]]\nname = \"f32\"\nrecipe = \"f32.toml\"\n"
            "[[arm]]\nname = \"4 bit\"\n"
            "[[arm]]\nname = \"nearest\"\nset.precision.gradients = \"mxfp4\"\n");
  }
  void add_arm(const std::string& name, const std::string& keys) const {
    const std::string text = read_whole_text(folder_ / "points.toml");
    write_atomically(folder_ / "points.toml", fmt::format("{}[[arm]]\nname = \"{}\"\n{}", text, name, keys));
  }
  std::string choosing = "confirm = [2]\nbest = 1\n[families]\nbits = [\"4 bit\", \"nearest\"]\n";

  std::vector<float> weights(const std::string& run, std::int64_t step) const {
    const Hdf5Reader file(folder_ / fmt::format("{}/checkpoints/step_{:08}.h5", run, step));
    std::vector<float> all;
    for (const auto& dataset : file.datasets())
      for (const float x : file.read_f32(dataset.name)) all.push_back(x);
    return all;
  }
  /// What no clock has a part in.
  Json timeless(const std::string& out) const {
    Json json = results(out);
    json.erase("times");
    return json;
  }
};

TEST_F(RefereeCommand, EveryDecayHasTheBitsOfTheRunThatWasPlannedSo) {
  add_arm("at decay",
          "[[arm.set.precision.phases]]\nstart_of_decay = true\n"
          "[[arm.set.precision.phases.rules]]\nformat = \"mxfp8\"\n");
  ASSERT_EQ(run({"sweep", "points.toml"}), 0) << output_;
  const Json all = results("runs/points");
  EXPECT_EQ(all["complete"], true);
  ASSERT_EQ(all["points"].size(), 4u);
  for (const Json& point : all["points"]) {
    const std::string at = point["name"].get<std::string>().front() == 's' ? "s" : "m";
    const std::string length = fmt::format("{:g}", point["tokens_per_parameter"].get<double>());
    const auto steps = point["steps"].get<std::int64_t>();
    for (const char* arm : {"4 bit", "at decay"}) {
      ASSERT_EQ(run({"train", fmt::format("runs/points/recipes/{}/{}/{}.toml", at, length, arm), "--seed=1",
                     "--train.out=alone", "--name=" + at + length + arm}),
                0)
          << output_;
      EXPECT_EQ(weights("alone/" + at + length + arm, steps),
                weights(fmt::format("runs/points/runs/{}/{}/{}/1", at, length, arm), steps))
          << point["name"];
    }
    EXPECT_TRUE(std::filesystem::exists(
        folder_ / fmt::format("runs/points/runs/{}/{}/4 bit/1/parent.json", at, length)))
        << "it branched";
  }
  EXPECT_LT(all["tokens_trained"], all["tokens_apart"]);
  // The curve goes through the trunk, whose last validation is that of its last step.
  const Json& longest = all["runs"].back();
  EXPECT_EQ(longest["curve"].back()["loss"], longest["loss"]);
  EXPECT_EQ(longest["curve"].front()["step"], 3);
}

TEST_F(RefereeCommand, AMeasuredSwitchInATrunkHoldsInTheDecaysThatBranchFromIt) {
  std::string file = read_whole_text(folder_ / "points.toml");
  for (const auto& [name, error] : {std::pair("switch", "1e-6"), {"never", "1e6"}})
    file += fmt::format(
        "[[arm]]\nname = \"{}\"\nset.telemetry.every = 2\nset.precision.switch_error = {}\n"
        "[[arm.set.precision.phases]]\nstart_rollback = 1\n"
        "rules = [{{layers = \"blocks.*\", slots = [\"*.dy\"], format = \"bf16\"}}]\n",
        name, error);
  write_atomically(folder_ / "points.toml", file);
  ASSERT_EQ(run({"sweep", "points.toml"}), 0) << output_;
  for (const auto& [length, steps] : {std::pair("0.2", 8), {"0.5", 19}}) {
    ASSERT_EQ(run({"train", fmt::format("runs/points/recipes/s/{}/switch.toml", length), "--seed=1",
                   "--train.out=alone", fmt::format("--name={}", length)}),
              0)
        << output_;
    const auto branched = weights(fmt::format("runs/points/runs/s/{}/switch/1", length), steps);
    EXPECT_EQ(weights(fmt::format("alone/{}", length), steps), branched);
    EXPECT_NE(weights(fmt::format("runs/points/runs/s/{}/never/1", length), steps), branched);
  }
}

TEST_F(RefereeCommand, PartsAndAStopGiveWhatOneProcessGivesWhichConfirmsTheBestOfAFamily) {
  write_question(choosing);
  ASSERT_EQ(run({"sweep", "points.toml", "--out", "whole"}), 0) << output_;
  const Json all = timeless("whole");
  std::map<std::string, double> sums;
  std::map<std::string, int> confirmed;
  for (const Json& entry : all["runs"]) {
    const std::string name = all["arms"][entry["arm"].get<std::size_t>()]["name"];
    if (entry["stage"] == "select") sums[name] += entry["loss"].get<double>();
    EXPECT_EQ(entry["seed"], entry["stage"] == "confirm" ? 2 : 1);
    if (entry["stage"] == "confirm") confirmed[name]++;
  }
  const std::string best = sums["4 bit"] < sums["nearest"] ? "4 bit" : "nearest";
  EXPECT_EQ(confirmed, (std::map<std::string, int>{{"f32", 4}, {best, 4}}));
  for (const Json& arm : all["arms"]) EXPECT_EQ(arm["chosen"], arm["name"] == "f32" || arm["name"] == best);

  ASSERT_EQ(run({"sweep", "points.toml", "--out", "parts", "--part", "1/2"}), 0) << output_;
  EXPECT_EQ(results("parts")["complete"], false);
  EXPECT_LT(results("parts")["tokens_trained"], all["tokens_trained"]);
  EXPECT_TRUE(says("verdicts wait for the runs of seeds 2"));
  EXPECT_TRUE(says("confirm: it waits for the stage before it"));
  EXPECT_TRUE(says("seeds  arm")) << "results of the first seeds are shown meanwhile:\n" << output_;
  EXPECT_FALSE(says("not chosen"));
  const std::string page = read_whole_text(folder_ / "parts/report.html");
  EXPECT_LT(page.find("<td>first</td>"), page.find("<h2>")) << "and in the page's first table";
  for (const char* part : {"2/2", "1/2"})
    ASSERT_EQ(run({"sweep", "points.toml", "--out", "parts", "--part", part}), 0) << output_;
  EXPECT_EQ(timeless("parts"), all);
  ASSERT_EQ(run({"sweep", "parts/results.json", "--report", "--json", "--out", "page"}), 0) << output_;
  EXPECT_EQ(Json::parse(output_), results("parts"));
  for (const auto& [folder, code] : {std::pair("none", 0), {"failing", 6}}) {
    std::filesystem::create_directories(folder_ / folder);
    if (code != 0) {
      write_atomically(folder_ / "failing/gnuplot", std::string_view("#!/bin/sh\nexit 3\n"));
      std::filesystem::permissions(folder_ / "failing/gnuplot", std::filesystem::perms::owner_all);
    }
    const OnlyPath without(folder_ / folder);
    EXPECT_EQ(run({"sweep", "parts/results.json", "--report", "--out", "blank"}), code) << output_;
    EXPECT_EQ(says("plot: gnuplot failed; what it says is above"), code != 0);
    EXPECT_NE(read_whole_text(folder_ / "blank/report.html").find("No pictures"), std::string::npos);
  }
  EXPECT_EQ(run({"sweep", "points.toml", "--part", "3/2"}), int(ExitCode::usage));
  EXPECT_TRUE(
      says("--part 3/2: want the number of a part and how many there are, at most 9999, such as 3/16"));

  Program program(folder_.path(), {"sweep", "points.toml", "--out", "stopped", "--jobs", "1"});
  const auto metrics = folder_ / "stopped/runs/m/0.5/f32/1/metrics.jsonl";
  while (!std::filesystem::exists(metrics) || std::filesystem::file_size(metrics) == 0) ::usleep(1000);
  program.send(SIGTERM);
  ASSERT_EQ(program.wait(), int(ExitCode::interrupted)) << program.output();
  const Json stopped = results("stopped");
  EXPECT_EQ(stopped["complete"], false);
  for (const Json& entry : stopped["runs"])  // the short runs come first
    EXPECT_EQ(entry["state"] == "finished", entry["point"] != 3) << entry;
  ASSERT_EQ(run({"sweep", "points.toml", "--out", "stopped"}), 0) << output_;
  EXPECT_EQ(timeless("stopped"), all);
}

TEST_F(RefereeCommand, WhereNoTunedValueSuitsTheRunsAreTriedAllTheSame) {
  write_question("[tune]\nseeds = [5]\noptim.learning_rate = [1e30, 1e31, 1e32]\n");
  EXPECT_EQ(run({"sweep", "points.toml"}), int(ExitCode::diverged)) << output_;
  EXPECT_TRUE(says("tune: no optim.learning_rate suits '4 bit': the middle one stands in")) << output_;
  EXPECT_FALSE(results("runs/points")["runs"].empty()) << "they were tried";
}

TEST_F(RefereeCommand, TheBestValueIsTunedAtTheSmallestPointAndMovesWithTheSize) {
  write_question("[tune]\nseeds = [5]\noptim.learning_rate = [1e-2, 1e-9, 2e-9, 3e-9, 4e-9]\n",
                 "learning_rate_power = -0.5\n");
  ASSERT_EQ(run({"sweep", "points.toml"}), 0) << output_;
  const Json all = results("runs/points");
  ASSERT_EQ(all["tunes"].size(), 15u);  // more values than points
  EXPECT_TRUE(all["tunes"][0]["best"] == true && all["tunes"][0]["edge"] == true) << all["tunes"][0];
  EXPECT_LT(all["tunes"][0]["loss"], all["tunes"][1]["loss"]);
  for (const Json& entry : all["runs"])  // twice the layers have twice the parameters
    EXPECT_EQ(entry["learning_rate"].get<double>(),
              double(1e-2f * float(entry["point"] < 2 ? 1 : std::sqrt(0.5))));
  // Five values of three arms at the smallest point; then the long lengths, and the decays of the short ones.
  const Json &points = all["points"], &sizes = all["sizes"];
  std::int64_t steps = 15 * points[0]["steps"].get<std::int64_t>(), apart = steps;
  for (const Json& point : points) {
    apart += 3 * point["steps"].get<std::int64_t>();
    steps +=
        3 *
        (point["tokens_per_parameter"] == 0.5 ? point["steps"] : point["decay_steps"]).get<std::int64_t>();
  }
  const auto tokens_per_step = sizes[0]["tokens_per_step"].get<std::int64_t>();
  EXPECT_EQ(all["tokens_trained"], steps * tokens_per_step);
  EXPECT_EQ(all["tokens_apart"], apart * tokens_per_step);
  ASSERT_EQ(run({"sweep", "points.toml", "--check", "--json", "--out", "nowhere"}), 0) << output_;
  EXPECT_EQ(Json::parse(output_)["tokens_trained"], all["tokens_trained"]) << "what it will train";
  ASSERT_EQ(run({"sweep", "points.toml", "--report", "--out", "nowhere"}), 3) << output_;
  EXPECT_TRUE(says("nowhere: no such folder"));
  std::filesystem::create_directory(folder_ / "nowhere");
  ASSERT_EQ(run({"sweep", "points.toml", "--report", "--out", "nowhere"}), 0) << output_;
  EXPECT_EQ(results("nowhere")["tokens_trained"], 0) << "what it has trained";
}

TEST_F(RefereeCommand, CheckListsPointsAndStagesAndWritesNothing) {
  write_question(choosing);
  ASSERT_EQ(run({"sweep", "points.toml", "--check", "--json"}), 0) << output_;
  const Json plan = Json::parse(output_);
  EXPECT_EQ(plan["points"].size(), 4u);
  EXPECT_EQ(plan["points"][0]["steps"], 8);
  // A leg and two decays for two sizes: of three arms, then of the baseline and the best one.
  EXPECT_EQ(plan["stages"][0]["runs"].size(), 18u);
  EXPECT_EQ(plan["stages"][1]["runs"].size(), 12u);
  EXPECT_FALSE(std::filesystem::exists(folder_ / "runs"));
}

TEST_F(RefereeCommand, NothingIsResolvedAgainstABaselineThatBlewUp) {
  referee::Results results;
  results.asked.select = {1, 2}, results.asked.tolerance = 0.01;
  results.arms.resize(2), results.points.resize(1);
  for (const std::size_t arm : {0, 1})
    for (const std::uint64_t seed : {1, 2})
      results.runs.push_back(
          {.arm = arm, .seed = seed, .state = "finished", .loss = 1.0 + double(arm) + 0.001 * double(seed)});
  results.add_gaps();
  ASSERT_EQ(results.gaps.size(), 1u);
  EXPECT_EQ(results.gaps[0].verdict, Verdict::worse);
  results.gaps.clear();
  results.runs[1].spikes.push_back({.step = 30, .z = 9, .unlearned = 0.8});
  results.add_gaps();
  EXPECT_EQ(results.gaps[0].verdict, Verdict::not_resolved);
  EXPECT_EQ(results.gaps[0].reason, "the loss of the baseline blew up");
}

TEST_F(RefereeCommand, ASumTakesTheLongestNameWhereOneHoldsASign) {
  write_question("contrasts = [\"nearest - 4 bit - f32\", \"4 bit - nearest - 4 bit - f32 + nearest\"]\n");
  write_atomically(folder_ / "points.toml",
                   read_whole_text(folder_ / "points.toml") +
                       "[[arm]]\nname = \"nearest - 4 bit\"\nset.precision.activations = \"mxfp8\"\n");
  const RefereeFile file((folder_ / "points.toml").string());
  ASSERT_EQ(file.contrasts.size(), 2u);
  EXPECT_EQ(file.contrasts[0].arms, (std::vector<std::size_t>{0, 3}));
  EXPECT_EQ(file.contrasts[0].weights, (std::vector<double>{-1, 1}));
  EXPECT_EQ(file.contrasts[1].arms, (std::vector<std::size_t>{0, 1, 2, 3}));
  EXPECT_EQ(file.contrasts[1].weights, (std::vector<double>{-1, 1, 1, -1}));
}

TEST_F(RefereeCommand, BadFilesAreRefused) {
  const auto refuses = [&](const std::string& more, const std::string& points, const std::string& message) {
    write_question(more, points);
    EXPECT_EQ(run({"sweep", "points.toml", "--check"}), int(ExitCode::usage)) << output_;
    EXPECT_TRUE(says(message)) << more << points;
  };
  refuses("", "decay = 1\n", "points.decay = 1; want the share of each length");
  refuses("", "decay = 0.001\n", "of its 15 steps the decay begins after step 15");
  refuses("", "dekay = 0.2\n", "unknown key 'points.dekay'; did you mean 'decay'?");
  refuses("confirm = [1]\n", "", "seed 1 is in two of select, confirm and tune.seeds");
  refuses("best = 1\n", "", "best = 1 chooses arms of [families] for the seeds of `confirm`; want both");
  refuses("contrasts = [\"4 bit - nearer\"]\n", "", "contrasts: 'nearer' is no arm; did you mean 'nearest'?");
  refuses("contrasts = [\"4 bit + nearest\"]\n", "", "want a sum that adds as many arms as it takes away");
  refuses("contrasts = [\"4 bit - 4 bit\"]\n", "", "names '4 bit' twice; want each arm once");
  refuses("[families]\nbits = [\"f32\"]\n", "", "families.bits: 'f32' is the baseline");
  refuses("[families]\n\"\" = [\"4 bit\"]\n", "", "want a name, and a list of arms");
  refuses("contrasts = [\"4 bit - nearest\", \"nearest - 4 bit\"]\n", "",
          "\"nearest - 4 bit\" is \"4 bit - nearest\" again");
  refuses("", "[[size]]\nname = \"l\"\nset.data.file = \"x.h5\"\n",
          "size.set has data.file; want it in [set], so that all sizes are validated on the same windows");
  refuses("[tune]\nseeds = [1]\noptim.learning_rate = [1e-3]\n", "", "seed 1 is in two");
  refuses("[tune]\nseeds = [9]\noptim.learning_rate = [1e-3, 2e-3, 1e-3]\n", "",
          "points.toml:7:7: [tune] has optim.learning_rate = 0.001 twice; want each number once");
  refuses("[tune]\nseeds = [9]\nmodel.kind = [\"gpt2\"]\n", "",
          "[tune] has model.kind; want seeds, and one key");
  refuses("", "[[size]]\nname = \"l\"\nset.model.layers = 3\n", ", the one before it");
  refuses("", "[[precision.phases]]\n", "unknown key or section 'precision' of a sweep");
  for (const auto& [tuned, place] : {std::pair("optim.beta2", ":29"), {"optim.learning_rate", ":32"}}) {
    write_question(fmt::format("[tune]\nseeds = [9]\n{} = [0.1, 0.2]\n", tuned));
    const std::string question = read_whole_text(folder_ / "points.toml");
    write_atomically(folder_ / "points.toml", question +
                                                  "set.optim.beta2 = 0.9\n[[arm]]\nname = \"own\"\n"
                                                  "set.optim.learning_rate = 1e-3\n");
    EXPECT_EQ(run({"sweep", "points.toml", "--check"}), int(ExitCode::usage)) << output_;
    EXPECT_TRUE(
        says(fmt::format("{}: {} reaches arm '{}', but [tune] sets it in all arms; want it in one of the two",
                         place, tuned, tuned == std::string("optim.beta2") ? "nearest" : "own")));
  }
  for (const auto& [keys, message] :
       {std::pair("[[arm.set.precision.phases]]\nstart_fraction = 0.5\n"
                  "[[arm.set.precision.phases.rules]]\nformat = \"mxfp8\"\n",
                  "depends on the length, so that lengths share no trunk"),
        {"set.train.steps = 7\n", "arm 'own' has train.steps, which [points] decide"},
        {"recipe = \"constant.toml\"\n", "arm 'own' has schedule.kind, which [points] decide"}}) {
    write_atomically(folder_ / "constant.toml", std::string_view("schedule.kind = \"constant\"\n"));
    write_question("", "");
    add_arm("own", keys);
    EXPECT_EQ(run({"sweep", "points.toml", "--check"}), int(ExitCode::usage)) << output_;
    EXPECT_TRUE(says(message)) << message;
  }
  write_question("");
  std::string text = read_whole_text(folder_ / "points.toml");
  write_atomically(folder_ / "points.toml", std::regex_replace(text, std::regex("(arm\\]\\]\nname = .*\n)"),
                                                               "$1set.model.mlp_width = 40\n"));
  EXPECT_EQ(run({"sweep", "points.toml", "--check"}), int(ExitCode::usage)) << output_;
  EXPECT_TRUE(says("arm 'f32' has other parameters or tokens in a step than size 's'"));
  write_atomically(folder_ / "points.toml", text.replace(text.find("0.5]"), 3, "0.2001"));
  EXPECT_EQ(run({"sweep", "points.toml", "--check"}), int(ExitCode::usage)) << output_;
  EXPECT_TRUE(says(
      "size 's': 0.2 and 0.2001 tokens a parameter have one length or one name; want lengths further apart"));
  write_atomically(folder_ / "bad.json", std::string("{\"asked\": {}}"));
  EXPECT_EQ(run({"sweep", "bad.json", "--report"}), int(ExitCode::data)) << output_;
  EXPECT_TRUE(says("bad.json: /asked: key 'name' not found; want the results.json of a sweep"));
  EXPECT_EQ(run({"sweep", "tiny.toml", "--part", "1/2"}), int(ExitCode::usage)) << output_;
}

}  // namespace
}  // namespace mxtape::test
