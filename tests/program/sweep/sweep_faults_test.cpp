// Every call of a sweep that reads fails once. What cannot be read is called neither damaged nor another's,
// whoever follows the message loses nothing, and the same sweep once more gives the undisturbed table.
#include <optional>

#include "tests/program/fault_fixture.h"
#include "tests/program/only_path.h"

namespace mxtape::test {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

class SweepReadFaults : public FaultTest {
 protected:
  SweepReadFaults() {
    write_atomically(
        folder_ / "ask.toml",
        std::string_view("base = \"tiny.toml\"\nbaseline = \"mx\"\nseeds = [7]\ntolerance = 0.5\n"
                         "[[arm]]\nname = \"mx\"\n"
                         "[[arm]]\nname = \"nearest\"\nset.precision.gradients = \"mxfp4\"\n"));
    EXPECT_EQ(run_plainly(sweep), 0) << output_;
    whole_ = results();
  }

  /// What the sweep found, without what a clock decides.
  Json results() const {
    Json json = Json::parse(read_whole_text(out_ / "results.json"));
    json.erase("times");
    return json;
  }
  /// The files of the runs and what is noted of them.
  std::map<std::string, std::vector<std::byte>> runs() const {
    std::map<std::string, std::vector<std::byte>> files;
    for (const auto& entry : fs::recursive_directory_iterator(out_ / "runs"))
      if (entry.is_regular_file()) files[entry.path().string()] = read_whole(entry.path());
    return files;
  }
  /// Fails call n, and follows the message: nothing is called what it is not, and the same sweep once more
  /// gives the undisturbed results.
  void fail_call(const std::vector<std::string>& calls, std::size_t n, const char* how = "error") {
    const std::string what = fmt::format("{}: call {} of {}, {}", how, n, calls.size(), calls[n - 1]);
    const int code = run(sweep, {.at = std::to_string(n), .how = how, .calls = "reads", .alone = true});
    EXPECT_TRUE(code == 0 || code == int(ExitCode::resource)) << code << " " << what << "\n" << output_;
    for (const char* untrue : {"delete", "damaged", "lacks", "another recipe", "--again"})
      EXPECT_EQ(output_.find(untrue), std::string::npos) << what << "\n" << output_;
    EXPECT_EQ(run_plainly(sweep), 0) << what << "\n" << output_;
    EXPECT_EQ(results(), whole_) << what;
  }

  const std::vector<std::string> sweep{"sweep", "ask.toml", "--jobs=1"};
  const fs::path out_ = folder_ / "runs/ask";
  std::optional<OnlyPath> without_gnuplot_{folder_.path()};  // whose start is most of a sweep's time
  Json whole_;
};

TEST_F(SweepReadFaults, OfAFinishedSweepLoseNothing) {
  const auto files = runs();
  const auto calls = calls_of(sweep, "reads", true);
  for (const std::size_t n : chosen(calls)) {
    fail_call(calls, n);
    // One error of a read is as another.
    if (calls[n - 1].starts_with("open ") || is_nightly()) fail_call(calls, n, "other");
    EXPECT_TRUE(runs() == files) << calls[n - 1];
  }
}

TEST_F(SweepReadFaults, OfASweepThatTrainsLoseNothing) {
  fs::remove_all(out_);
  const auto calls = calls_of(sweep, "reads", true);
  for (const std::size_t n : chosen(calls)) {
    if (!contains(calls[n - 1], "runs/ask")) continue;
    fs::remove_all(out_);
    fail_call(calls, n);
  }
}

TEST_F(SweepReadFaults, OfPicturesEndItWhenAllElseIsThere) {
  without_gnuplot_.reset();
  if (std::system("command -v gnuplot >/dev/null") != 0) GTEST_SKIP() << "gnuplot is not installed";
  const auto calls = calls_of(sweep, "reads", true);
  int pictures = 0;
  for (const std::size_t n : chosen(calls)) {
    if (!contains(calls[n - 1], "mxtape-plot") && !contains(calls[n - 1], "/proc/self/fd/")) continue;
    fail_call(calls, n);
    ++pictures;
  }
  EXPECT_GE(pictures, 4) << "in two forms, each opened and read";
}

}  // namespace
}  // namespace mxtape::test
