// What a sweep leaves behind for programs and for people: results.json, report.html.
#include "tests/program/sweep/html_check.h"
#include "tests/program/sweep/sweep_fixture.h"

namespace mxtape::test {
namespace {

TEST_F(SweepCommand, JsonGoesToStandardOutputAloneAndIsTheFile) {
  ASSERT_EQ(run({"sweep", "ask.toml"}), 0) << output_;
  const std::string line =
      "cd '" + folder_.path().string() + "' && '" MXTAPE_PROGRAM "' sweep ask.toml --json 2>x";
  FILE* pipe = ::popen(line.c_str(), "r");
  std::string text;
  for (int c = std::fgetc(pipe); c != EOF; c = std::fgetc(pipe)) text += char(c);
  EXPECT_EQ(::pclose(pipe), 0);
  EXPECT_EQ(Json::parse(text), results());
}

TEST_F(SweepCommand, ResultsHaveNullWhereThereIsNoTestAndNoLawAndAreNotReplacedSilently) {
  write_sweep_of_two_gemms();
  ASSERT_EQ(run({"sweep", "gemms.toml", "--out", "both"}), 0) << output_;
  const Json gap = results("both")["gaps"][0], law = results("both")["law"];
  for (const auto& number : {gap["gap"]["p"], gap["holm"], law["A"], law["E"], law["worst"]})
    EXPECT_TRUE(number.is_null()) << "one seed, one size: " << number;
  EXPECT_EQ(law["why"], "one size and one length");
  ASSERT_EQ(run({"sweep", "gemms.toml", "--out", "both"}), 0) << output_;
  EXPECT_FALSE(says("note: both/results.json"));
  std::filesystem::copy_file(folder_ / "gemms.toml", folder_ / "other.toml");
  ASSERT_EQ(run({"sweep", "other.toml", "--out", "both", "--report"}), 0) << output_;
  EXPECT_TRUE(says("note: both/results.json was of gemms.toml, and is replaced"));
  ASSERT_EQ(run({"sweep", "./other.toml", "--out", "both", "--report"}), 0) << output_;
  EXPECT_FALSE(says("is replaced"));
  write_atomically(folder_ / "both/results.json", std::string("{}"));
  ASSERT_EQ(run({"sweep", "other.toml", "--out", "both", "--report"}), 0) << output_;
  EXPECT_TRUE(says("note: both/results.json was something else, and is replaced"));
  for (const char* option : {"--check", "--again", "--jobs=1", "--part=1/2"})
    EXPECT_EQ(run({"sweep", "gemms.toml", "--report", option}), int(ExitCode::usage)) << option;
}

/// Every number that results.json has and the report shows.
void expect_numbers(const std::string& page, const Json& json) {
  const auto holds = [&](const Json& number) {
    EXPECT_NE(page.find(number.dump()), std::string::npos) << number;
  };
  holds(json["resolvable_gap"]);
  for (const Json& run : json["runs"]) holds(run["loss"]);
  for (const Json& gap : json["gaps"]) {
    holds(gap["gap"]["mean"]);
    for (const Json& end : gap["gap"]["interval95"]) holds(end);
    EXPECT_NE(page.find(gap["verdict"].get<std::string>()), std::string::npos);
  }
}

TEST_F(SweepCommand, TheReportIsOneWholePageWithAllNumbersAndAsksForNothing) {
  ASSERT_EQ(run({"sweep", "ask.toml"}), 0) << output_;
  const std::string page = read_whole_text(folder_ / "runs/ask/report.html");
  EXPECT_EQ(html_fault(page), "");
  expect_numbers(page, results());
  for (const char* outside : {"http", "href", "url(", "@import", "<script", "<link", "<iframe"})
    EXPECT_EQ(page.find(outside), std::string::npos) << outside;
  for (auto at = page.find("src="); at != std::string::npos; at = page.find("src=", at + 1))
    EXPECT_EQ(page.substr(at, 10), "src=\"data:") << "a picture in the page itself";
  for (const char* part :
       {"prefers-color-scheme: dark", "What differs from the baseline", "precision.gradients", "4 bit"})
    EXPECT_NE(page.find(part), std::string::npos) << part;
}

TEST_F(SweepCommand, ThePageNamesTheBaselinesArithmeticAsResultsDo) {
  write_sweep_of_two_gemms();
  ASSERT_EQ(run({"sweep", "gemms.toml"}), 0) << output_;
  const std::string page = read_whole_text(folder_ / "runs/gemms/report.html");
  const std::string arithmetic = results("runs/gemms")["arithmetic"];
  EXPECT_FALSE(contains(arithmetic, "integer GEMMs"));
  EXPECT_TRUE(contains(page, arithmetic + "; data hash ")) << arithmetic;
}

TEST_F(SweepCommand, ABrowserWithoutANetworkShowsTheReport) {
  std::string browser;
  for (const char* name : {"chromium", "chromium-browser", "google-chrome"})
    if (std::system(fmt::format("command -v {} >/dev/null 2>&1", name).c_str()) == 0) browser = name;
  if (const char* named = std::getenv("MXTAPE_BROWSER")) browser = named;
  if (browser.empty()) GTEST_SKIP() << "no chromium here, and MXTAPE_BROWSER names none";
  ASSERT_EQ(run({"sweep", "ask.toml"}), 0) << output_;
  const std::string line = fmt::format(
      "cd '{0}' && {1} --headless --no-sandbox --disable-gpu --user-data-dir='{0}/browser' "
      "--proxy-server=127.0.0.1:9 --dump-dom 'file://{0}/runs/ask/report.html' 2>messages.txt",
      folder_.path().string(), browser);
  FILE* pipe = ::popen(line.c_str(), "r");
  std::string dom;
  for (int c = std::fgetc(pipe); c != EOF; c = std::fgetc(pipe)) dom += char(c);
  ASSERT_EQ(::pclose(pipe), 0) << read_whole_text(folder_ / "messages.txt");
  expect_numbers(dom, results());
}

}  // namespace
}  // namespace mxtape::test
