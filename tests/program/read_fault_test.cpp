// Every call that reads fails once: an open, a read, a listing, a look at a file. What cannot be read is
// never taken for empty, absent or damaged.
#include "tests/program/fault_fixture.h"

namespace mxtape::test {
namespace {

namespace fs = std::filesystem;
using Words = std::vector<std::string>;

class ReadFaults : public FaultTest {
 protected:
  ReadFaults() {
    calls_of_a_whole_run();
    EXPECT_EQ(run_plainly({"train", "tiny.toml", "--train.keep=2"}), 0) << output_;
    write_atomically(folder_ / "text.txt", std::string_view("the cat sees a small dog. the cat sees it."));
    write_atomically(folder_ / "ids.bin", std::string(400, '\1'));
  }

  /// What lies in the run's folder, by name.
  std::map<std::string, std::vector<std::byte>> content() const {
    std::map<std::string, std::vector<std::byte>> files;
    for (const auto& entry : fs::recursive_directory_iterator(run_))
      if (entry.is_regular_file()) files[entry.path().string()] = read_whole(entry.path());
    return files;
  }
  /// What was printed, without the line that tells what is free on the disk.
  /// Without free space and times, which differ from call to call.
  std::string lasting_output() const {
    std::string text = output_;
    for (const char* const line : {"\ndisk ", "\nmxtape: prompt "})
      if (const auto begin = text.find(line); begin != std::string::npos)
        text.erase(begin, text.find('\n', begin + 1) - begin);
    return text;
  }

  int failed_ = 0, refused_ = 0;
};

TEST_F(ReadFaults, ACommandRefusesOrPrintsWhatItWouldHave) {
  const auto before = content();
  const std::string file = checkpoint(2).string();
  for (const Words& words :
       {Words{"check", "tiny.toml", "--resume=auto"},
        {"verify", "runs/tiny", "data.h5"},
        {"info", file},
        {"eval", "runs/tiny", "--windows=1"},
        {"sample", file, "--tokens=3", "--prompt=the"},
        {"prepare", "text.txt", "--out=prepared.h5", "--force"},
        {"prepare", "ids.bin", "--tokens=u16", "--vocabulary=300", "--out=prepared.h5", "--force"}}) {
    const auto calls = calls_of(words, "reads");
    const std::string whole = lasting_output();
    for (const std::size_t n : chosen(calls)) {
      const std::string what = fmt::format("{}: call {} of {}, {}", words[0], n, calls.size(), calls[n - 1]);
      const int code = run(words, {.at = std::to_string(n), .calls = "reads"});
      if (code == 0)
        EXPECT_EQ(lasting_output(), whole) << what;
      else
        EXPECT_TRUE(is_refused(code)) << what;
      EXPECT_TRUE(content() == before) << what;
      ++failed_;
      refused_ += code != 0;
    }
  }
  fmt::print("{} calls failed once each, {} of them ended the command\n", failed_, refused_);
}

TEST_F(ReadFaults, CheckReadsAFileOnceHoweverOftenItIsExtended) {
  constexpr int files = 12;
  fs::rename(folder_ / "tiny.toml", folder_ / "e0.toml");
  for (int i = 1; i <= files; ++i)
    write_atomically(folder_ / fmt::format("e{}.toml", i),
                     fmt::format("extends = [\"e{0}.toml\", \"e{0}.toml\"]\n", i - 1));
  std::map<std::string, int> opened;
  for (const auto& call : calls_of({"check", fmt::format("e{}.toml", files)}, "reads"))
    if (call.starts_with("open ") && call.ends_with(".toml")) ++opened[call];
  EXPECT_EQ(opened.size(), std::size_t(files) + 1);
  for (const auto& [call, times] : opened) EXPECT_EQ(times, 1) << call;
}

TEST_F(ReadFaults, ARunGoesOnToTheSameBitsOrRefusesAndLosesNothing) {
  fs::remove(checkpoint(last_step));
  fs::rename(folder_ / "runs", folder_ / "first");
  const auto prepare = [&] {
    fs::remove_all(folder_ / "runs");
    fs::copy(folder_ / "first", folder_ / "runs", fs::copy_options::recursive);
  };
  prepare();
  const auto calls = calls_of({"train", "tiny.toml", "--resume=auto"}, "reads");
  for (const char* how : {"error", "other"})
    for (const std::size_t n : chosen(calls)) {
      const bool opens = calls[n - 1].starts_with("open ") || calls[n - 1].starts_with("list ");
      if (how == std::string("other") && !opens && !is_nightly())
        continue;  // one error of a read is as another
      const std::string what = fmt::format("{}: call {} of {}, {}", how, n, calls.size(), calls[n - 1]);
      prepare();
      const int code = train({.at = std::to_string(n), .how = how, .calls = "reads"});
      if (code == 0)
        expect_finished(what);
      else
        EXPECT_TRUE(is_refused(code)) << what;
      for (const auto& entry : fs::recursive_directory_iterator(run_))
        EXPECT_FALSE(contains(entry.path().string(), ".rejected")) << what << ": no file is damaged";
      if (code != 0) expect_whole_and_resumable(what);
      ++failed_;
      refused_ += code != 0;
    }
  fmt::print("{} calls failed once each, {} of them ended the run\n", failed_, refused_);
}

}  // namespace
}  // namespace mxtape::test
