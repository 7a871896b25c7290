// What a sweep shows: pictures, a report of few validations, spikes.
#include <filesystem>

#include "core/text/base64.h"
#include "program/records/run_log.h"
#include "tests/program/only_path.h"
#include "tests/program/sweep/html_check.h"
#include "tests/program/sweep/sweep_fixture.h"

namespace mxtape::test {
namespace {

namespace fs = std::filesystem;

bool has_gnuplot() { return std::system("command -v gnuplot >/dev/null") == 0; }

TEST_F(SweepCommand, PicturesThatCannotBeWrittenAreAnErrorAfterAllElseIsThere) {
  fs::create_directories(folder_ / "bin");
  {
    const OnlyPath none(folder_ / "bin");
    ASSERT_EQ(run({"sweep", "ask.toml"}), 0) << output_;
    EXPECT_TRUE(says("no pictures: plot: gnuplot was not found"));
  }
  fs::create_directories(folder_ / "runs/ask/gap.svg");
  const int in_the_way = run({"sweep", "ask.toml"});
  if (has_gnuplot()) {
    EXPECT_EQ(in_the_way, int(ExitCode::resource)) << output_;
    EXPECT_TRUE(says("runs/ask: not all pictures could be written"));
    EXPECT_TRUE(says("\nbaseline") || says(" baseline\n")) << "the table comes first";
  }
  fs::remove(folder_ / "runs/ask/gap.svg");
  write_atomically(folder_ / "runs/ask/gap.svg", "of another day");
  write_atomically(folder_ / "bin/gnuplot", "#!/bin/sh\nexit 3\n");
  fs::permissions(folder_ / "bin/gnuplot", fs::perms::owner_all);
  const OnlyPath failing(folder_ / "bin");
  EXPECT_EQ(run({"sweep", "ask.toml"}), int(ExitCode::resource)) << output_;
  EXPECT_TRUE(says("those in the folder are of an earlier time"));
  EXPECT_EQ(results()["complete"], true);
}

TEST_F(SweepCommand, TheToleranceIsDrawnOverTheWholeWidthOfThePicture) {
  if (!has_gnuplot()) GTEST_SKIP() << "gnuplot is not installed";
  ASSERT_EQ(run({"sweep", "ask.toml"}), 0) << output_;
  const std::string svg = read_whole_text(folder_ / "runs/ask/gap.svg");
  // The first curve is the stripe: "points = 'x,y x,y ...'" of what is filled, the key's sample first.
  std::string text = svg.substr(svg.find("id=\"gnuplot_plot_1\""));
  text.resize(text.find("id=\"gnuplot_plot_2\""));
  double least = 1e9, most = 0;
  for (auto at = text.find("points = '"); at != std::string::npos; at = text.find("points = '", at + 1)) {
    std::istringstream numbers(text.substr(at + 10, text.find('\'', at + 10) - at - 10));
    char comma;
    for (double x = 0, y = 0; numbers >> x >> comma >> y;)
      least = std::min(least, x), most = std::max(most, x);
  }
  EXPECT_LT(least, 200) << text;
  EXPECT_GT(most, 950) << "of 1000\n" << text;
}

TEST_F(SweepCommand, ASingleValidationHasItsWhiskerAndNoPictureOfItsOwn) {
  write_atomically(folder_ / "once.toml", [&] {
    std::string text = read_whole_text(folder_ / "ask.toml");
    text.replace(text.find("eval_every = 4"), 14, "eval_every = 0");
    return text;
  }());
  // In the page are the pictures of the folder, and no other.
  const auto expect_pictures = [&](const fs::path& sweep, const std::vector<std::string>& names) {
    const std::string page = read_whole_text(sweep / "report.html");
    EXPECT_EQ(html_fault(page), "");
    std::size_t count = 0;
    for (auto at = page.find("<img"); at != std::string::npos; at = page.find("<img", at + 1)) ++count;
    EXPECT_EQ(count, has_gnuplot() ? names.size() : 0);
    EXPECT_EQ(page.find("No pictures") != std::string::npos, !has_gnuplot());
    if (!has_gnuplot()) return;
    for (const auto& name : names)
      EXPECT_NE(page.find(to_base64(read_whole_text(sweep / name))), std::string::npos) << name;
  };
  ASSERT_EQ(run({"sweep", "ask.toml"}), 0) << output_;
  expect_pictures(folder_ / "runs/ask", {"gap.svg", "loss.svg"});
  ASSERT_EQ(run({"sweep", "once.toml"}), 0) << output_;
  EXPECT_TRUE(says("note: each run is validated once, at its end (train.steps 12, train.eval_every 0)"));
  EXPECT_FALSE(fs::exists(folder_ / "runs/once/loss.svg"));
  expect_pictures(folder_ / "runs/once", {"gap.svg"});
}

TEST_F(SweepCommand, NothingIsResolvedAgainstABaselineThatBlewUp) {
  write_sweep("f32", 16);
  ASSERT_EQ(run({"sweep", "ask.toml"}), 0) << output_;
  EXPECT_EQ(arm(results(), "nearest")["gap"]["reason"], "");
  EXPECT_EQ(arm(results(), "f32")["runs"][1]["spikes"], Json::array());
  EXPECT_EQ(output_.find("spikes"), std::string::npos) << output_;
  // Guessing costs 2.7 nats or so.
  const auto blow_up = [&](const std::string& run, int step) {
    std::string records;
    std::istringstream lines(read_whole_text(folder_ / run / "metrics.jsonl"));
    for (std::string line; std::getline(lines, line);) {
      auto record = nlohmann::ordered_json::parse(line);
      if (record.contains("loss"))
        record["loss"] = record["step"] == step ? 2.6 : 2.6 - 0.1 * record["step"].get<double>();
      records += record.dump() + "\n";
    }
    write_atomically(folder_ / run / "metrics.jsonl", records);
  };
  blow_up("runs/ask/runs/4 bit/1", 12);
  ASSERT_EQ(run({"sweep", "ask.toml"}), 0) << output_;
  EXPECT_EQ(arm(results(), "nearest")["gap"]["reason"], "") << "the baseline had none";
  EXPECT_TRUE(says("spikes of the training loss: 4 bit: seed 1 at step 12 (unlearned: "));
  blow_up("runs/ask/runs/f32/2", 14);
  ASSERT_EQ(run({"sweep", "ask.toml"}), 0) << output_;
  const Json spike = arm(results(), "f32")["runs"][1]["spikes"].at(0);
  EXPECT_EQ(spike["step"], 14);
  EXPECT_GT(spike["z"], 6);
  EXPECT_GT(spike["unlearned"], 0.5);
  for (const char* name : {"4 bit", "nearest"}) {
    EXPECT_EQ(arm(results(), name)["gap"]["verdict"], "not resolved");
    EXPECT_EQ(arm(results(), name)["gap"]["reason"], "the loss of the baseline blew up");
  }
  EXPECT_TRUE(says("not resolved: the loss of the baseline blew up\n"));
  EXPECT_FALSE(says("1.0000")) << "a p where nothing was tested";
  EXPECT_TRUE(says("spikes of the training loss: f32: seed 2 at step 14 (unlearned: "));
  const std::string page = read_whole_text(folder_ / "runs/ask/report.html");
  EXPECT_EQ(html_fault(page), "");
  EXPECT_NE(page.find("<li>f32: seed 2 at step 14 (unlearned: "), std::string::npos);
}

}  // namespace
}  // namespace mxtape::test
