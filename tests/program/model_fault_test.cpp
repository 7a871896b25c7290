// Every call of an import, an export and a tokenizer's training fails once. What they make is there whole or
// not at all, and a message says which.
#include "tests/program/fault_fixture.h"
#include "tests/support/foreign_gpt2.h"

namespace mxtape::test {
namespace {

namespace fs = std::filesystem;
using Words = std::vector<std::string>;

class ModelFaults : public FaultTest {
 protected:
  ModelFaults() {
    write_atomically(folder_ / "text.txt", std::string_view("the cat sees a small dog. the cat sees it."));
    EXPECT_EQ(run_plainly({"tokenizer", "train", "text.txt", "--vocabulary", "260", "--out", "hf"}), 0)
        << output_;
    ForeignGpt2 model{.V = 260};
    model.draw(1);
    model.write(folder_ / "hf", TensorType::f32, 20'000);  // shards
    write_atomically(folder_ / "hf/generation_config.json", std::string_view("{\"eos_token_id\": 1}"));
    EXPECT_EQ(run_plainly({"import", "hf", "-o", "m"}), 0) << output_;
    EXPECT_EQ(run_plainly({"train", "tiny.toml"}), 0) << output_;
  }

  std::map<std::string, std::vector<std::byte>> content(const fs::path& out) const {
    std::map<std::string, std::vector<std::byte>> files;
    if (fs::is_regular_file(out)) files["."] = read_whole(out);
    if (fs::is_directory(out))
      for (const auto& entry : fs::recursive_directory_iterator(out))
        if (entry.is_regular_file())
          files[entry.path().lexically_relative(out).string()] = read_whole(entry.path());
    return files;
  }

  void expect_one_act(const Words& words, const char* calls) {
    const fs::path out = folder_ / "out";
    fs::remove_all(out);
    const auto all = calls_of(words, calls);
    const auto whole = content(out);
    ASSERT_FALSE(whole.empty()) << words[0];
    for (const std::size_t n : chosen(all))
      for (const char* how : {"error", "other"}) {
        if (!is_nightly() && (how == std::string_view("other")) == (n % 2 == 0)) continue;  // one of the two
        const std::string what =
            fmt::format("{} {}: {}: call {} of {}, {}", words[0], words[1], how, n, all.size(), all[n - 1]);
        fs::remove_all(out);
        const int code = run(words, {.at = std::to_string(n), .how = how, .calls = calls});
        if (code != 0) {
          EXPECT_TRUE(is_refused(code)) << what;
        }
        const bool made = code == 0 || contains(output_, "mxtape: out: written") ||
                          contains(output_, "out is written and whole");
        EXPECT_TRUE(content(out) == (made ? whole : decltype(whole){})) << what << "\n" << output_;
        for (const auto& entry : fs::directory_iterator(folder_.path()))
          EXPECT_EQ(entry.path().string().find(".tmp."), std::string::npos) << what << ": " << entry.path();
        if (!made) {
          EXPECT_EQ(run_plainly(words), 0) << what << ": the same command again\n" << output_;
          EXPECT_TRUE(content(out) == whole) << what;
        }
        ++failed_;
        refused_ += code != 0;
      }
  }
  void expect_one_act(const Words& words) {
    for (const char* calls : {"reads", "changes"}) expect_one_act(words, calls);
    fmt::print("{} calls failed once each, {} of them ended the command\n", failed_, refused_);
  }

  int failed_ = 0, refused_ = 0;
};

TEST_F(ModelFaults, AnImportIsOneAct) { expect_one_act({"import", "hf", "-o", "out"}); }

TEST_F(ModelFaults, AnExportIsOneAct) {
  expect_one_act({"export", "m", "--to", "hf", "-o", "out", "--shard-size", "2e-5"});
  expect_one_act({"export", "m", "--to", "llmc", "-o", "out"});
}

TEST_F(ModelFaults, APackedExportIsOneAct) {
  expect_one_act({"export", "runs/tiny", "--packed", "-o", "out"});
}

TEST_F(ModelFaults, TheTrainingOfATokenizerIsOneAct) {
  expect_one_act({"tokenizer", "train", "text.txt", "--vocabulary", "260", "--out", "out"});
}

}  // namespace
}  // namespace mxtape::test
