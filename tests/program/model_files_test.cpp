// What an imported model brings beside its weights goes with it.
#include "program/records/model_files.h"

#include "tests/program/program_fixture.h"

namespace mxtape::test {
namespace {

namespace fs = std::filesystem;

class ModelFiles : public ProgramTest {
 protected:
  /// models/m, imported from a folder with a tokenizer and what may lie beside it.
  void import_one() {
    ASSERT_EQ(run({"train", "tiny.toml"}), 0) << output_;
    ASSERT_EQ(run({"export", "runs/tiny", "--to", "hf", "-o", "hf"}), 0) << output_;
    for (const auto& [name, text] : came_) write_atomically(folder_ / ("hf/" + name), text);
    ASSERT_EQ(run({"import", "hf", "-o", "models/m"}), 0) << output_;
  }
  void expect_all_in(const std::string& folder) const {
    for (const auto& [name, text] : came_)
      EXPECT_EQ(read_whole_text(folder_ / (folder + "/" + name)), text) << folder << "/" << name;
    EXPECT_TRUE(fs::exists(folder_ / (folder + "/tokenizer.json"))) << folder;
  }

  const std::map<std::string, std::string> came_{{"generation_config.json", "{\"temperature\": 0.5}\n"},
                                                 {"special_tokens_map.json", "{}\n"},
                                                 {"chat_template.jinja", "{{ messages }}\n"}};
};

TEST_F(ModelFiles, GoFromAnImportToTheRunThatBeginsThereAndOutAgain) {
  import_one();
  expect_all_in("models/m");
  const std::vector<std::string> training{"train",
                                          "precision/mxfp4",
                                          "--from",
                                          "models/m",
                                          "--name=my",
                                          "--data.file=data.h5",
                                          "--train.steps=2",
                                          "--train.save_every=1",
                                          "--schedule.warmup_steps=0"};
  ASSERT_EQ(run(training), 0) << output_;
  expect_all_in("runs/my");
  ASSERT_EQ(run({"export", "runs/my", "--to", "hf", "-o", "my-hf"}), 0) << output_;
  expect_all_in("my-hf");
  auto further = training;
  further[3] = "runs/my@1", further[4] = "--name=further";
  ASSERT_EQ(run(further), 0) << output_;
  expect_all_in("runs/further");
  auto again = training;
  again.insert(again.end(), {"--resume", "no"});
  ASSERT_EQ(run(again), 0) << output_;
  expect_all_in("runs/my/before-1");
  expect_all_in("runs/my");
  ASSERT_EQ(run({"post-training", "runs/my", "--precision", "mxfp4", "--setting", "diffused", "--out",
                 "table", "--keep"}),
            0)
      << output_;
  expect_all_in("table");
}

TEST_F(ModelFiles, OfAnotherModelInTheFolderAboveAreNotTaken) {
  import_one();
  fs::create_directories(folder_ / "models/m/kept");
  fs::copy_file(folder_ / "models/m/checkpoints/step_00000000.h5", folder_ / "models/m/kept/x.h5");
  ASSERT_EQ(run({"export", "models/m/kept/x.h5", "--to", "hf", "-o", "x"}), 0) << output_;
  EXPECT_FALSE(fs::exists(folder_ / "x/generation_config.json"));
  write_atomically(folder_ / "models/m/kept/generation_config.json", std::string("{}\n"));
  ASSERT_EQ(run({"export", "models/m/kept/x.h5", "--to", "hf", "-o", "y"}), 0) << output_;
  EXPECT_EQ(read_whole_text(folder_ / "y/generation_config.json"), "{}\n");
}

}  // namespace
}  // namespace mxtape::test
