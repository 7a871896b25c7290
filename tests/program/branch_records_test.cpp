// What a branch leaves behind: its bytes, its recipe, its lineage, its records.
#include "program/plan/branch.h"

#include <nlohmann/json.hpp>

#include "data/hdf5/seal.h"
#include "program/records/run_log.h"
#include "recipes/knobs.h"
#include "tests/program/branch_fixture.h"

namespace mxtape::test {
namespace {

TEST_F(BranchTest, ABranchThatWasInterruptedEndsWithTheBytesOfOneThatWasNot) {
  train_parent();
  write_new("[precision]\nweights = 'mxfp8'\n[train]\nsave_every = 1\nkeep = 9\n");
  for (const std::string fresh : {"", "optimizer", "schedule", "precision"}) {
    std::vector<std::string> words{"train", "new.toml", "--from", "runs/parent@3"};
    if (!fresh.empty()) words.insert(words.end(), {"--fresh", fresh});
    auto whole = words, resumed = words;
    whole.push_back("--train.out=whole");
    resumed.insert(resumed.end(), {"--resume", "auto"});
    ASSERT_EQ(run(whole), 0) << output_;
    ASSERT_EQ(run(words), 0) << output_;
    const std::string recipe = text_of(in("new/recipe.toml"));
    for (const std::int64_t stop : {5, 4}) {
      for (std::int64_t later = stop + 1; later <= 6; ++later)
        std::filesystem::remove(in(fmt::format("new/checkpoints/step_{:08}.h5", later)));
      ASSERT_EQ(run(resumed), 0) << output_;
      EXPECT_TRUE(
          says(fmt::format("resumed from runs/new/checkpoints/step_{:08}.h5 at step {}", stop, stop)));
      for (std::int64_t step = stop + 1; step <= 6; ++step)
        EXPECT_TRUE(bytes("new", step) == bytes("new", step, "whole")) << fresh << " step " << step;
    }
    const auto origins = text_of(in("new/recipe.toml"));
    EXPECT_TRUE(contains(origins, "width = 32                            # its checkpoint")) << origins;
    EXPECT_TRUE(contains(origins, "save_every = 1                        # new.toml:4")) << origins;
    std::filesystem::remove_all(in("new"));
    std::filesystem::remove_all(folder_ / "whole");
  }
}

// The bytes above would be equal, too, if all recipes said the same wrong thing.

TEST_F(BranchTest, AStoredRecipeCallsDefaultWhatIsTheDefaultAndNothingElse) {
  train_parent();
  write_new("[train]\nsave_every = 1\n[schedule]\nkind = 'cosine'\n");
  ASSERT_EQ(run({"train", "new.toml", "--from", "runs/parent@3"}), 0) << output_;
  const CheckpointFile file(in("new/checkpoints/step_00000006.h5"));
  Recipe defaults, stored = file.header().recipe;
  const std::string text = "\n" + file.file().text_attribute("/", "recipe");
  const auto own = knobs(stored), initial = knobs(defaults);
  for (std::size_t i = 0; i < own.size(); ++i) {
    const bool same = value_text(own[i]) == value_text(initial[i]);
    const auto line = text.find(fmt::format("\n{} = {} ", own[i].key(), value_text(own[i])));
    ASSERT_NE(line, std::string::npos) << own[i].name;
    const std::string origin = text.substr(line + 1, text.find('\n', line + 1) - line - 1);
    EXPECT_TRUE(origin.ends_with(same ? "  # default" : "  # recipe")) << origin;
  }
}

TEST_F(BranchTest, LineageIsInTheFolderTheCheckpointAndTheMetrics) {
  train_parent();
  write_new("[precision]\nweights = 'mxfp8'\n");
  ASSERT_EQ(run({"train", "new.toml", "--from", "runs/parent@3", "--name=child"}), 0) << output_;
  ASSERT_EQ(run({"train", "new.toml", "--from", "runs/child", "--name=grandchild", "--train.steps=9",
                 "--precision.weights=bf16"}),
            0)
      << output_;
  const auto hash = verify_seal(in("parent/checkpoints/step_00000003.h5"));
  const auto parent = nlohmann::json::parse(text_of(in("child/parent.json")));
  EXPECT_EQ(parent["hash"], hash);
  EXPECT_EQ(parent["run"], in("parent").string());
  const auto first = nlohmann::json::parse(
      text_of(in("child/metrics.jsonl")).substr(0, text_of(in("child/metrics.jsonl")).find('\n')));
  EXPECT_EQ(first["event"], "branch");
  EXPECT_EQ(first["hash"], hash);
  const CheckpointFile checkpoint(in("grandchild/checkpoints/step_00000009.h5"));
  const auto lineage = nlohmann::json::parse(checkpoint.header().lineage);
  ASSERT_EQ(lineage.size(), 2u) << lineage.dump();
  EXPECT_EQ(lineage[0]["parent"], "parent");
  EXPECT_EQ(lineage[1]["parent"], "child");
  EXPECT_EQ(lineage[1]["changed"][0], "train.steps: 6 -> 9");
}

TEST_F(BranchTest, AChangeInPlaceIsMarkedInTheRecordsAndTheCheckpoint) {
  train_parent();
  ASSERT_EQ(run({"train", "tiny.toml", "--name=parent", "--train.accumulation=1", "--train.steps=9",
                 "--resume", "auto", "--allow-change", "train.steps", "--precision.weights=mxfp8",
                 "--allow-change", "precision"}),
            0)
      << output_;
  const RunLog log = read_run_log(in("parent"));
  ASSERT_EQ(log.turns.size(), 1u);
  EXPECT_EQ(log.turns[0].event, "change");
  EXPECT_EQ(log.turns[0].step, 6);
  EXPECT_NE(CheckpointFile(in("parent/checkpoints/step_00000009.h5")).header().lineage.find("mxfp8"),
            std::string::npos);
}

TEST_F(BranchTest, GoesOnWithoutItsParentAndOnlyAsThisParentsBranch) {
  train_parent();
  write_new("[train]\nsave_every = 1\nkeep = 9\n");
  const std::vector<std::string> words{"train",   "new.toml", "--from",   "runs/parent@3",
                                       "--fresh", "schedule", "--resume", "auto"};
  ASSERT_EQ(run(words), 0) << output_;
  const auto whole = bytes("new", 6);
  std::filesystem::remove(in("new/checkpoints/step_00000006.h5"));
  auto other = words;
  other[3] = "runs/parent@6";
  EXPECT_EQ(run(other), 2);
  EXPECT_TRUE(says("branched from") && says("@3; want that, or another --name")) << output_;
  std::filesystem::rename(in("parent"), in("moved"));
  other[3] = "runs/moved@3";
  EXPECT_EQ(run(other), 0) << output_;
  std::filesystem::remove(in("new/checkpoints/step_00000006.h5"));
  std::filesystem::remove_all(in("moved"));
  ASSERT_EQ(run(words), 0) << output_;
  EXPECT_TRUE(says("resumed from runs/new/checkpoints/step_00000005.h5")) << output_;
  EXPECT_TRUE(bytes("new", 6) == whole);
}

TEST_F(BranchTest, KilledBeforeItsFirstSaveItLeavesNoRecordOfAParentThatItNoLongerHas) {
  train_parent();
  write_new("[train]\nsteps = 100000\nsave_every = 0\nsave_minutes = 0\n");
  const std::vector<std::string> words{"train", "new.toml", "--from", "runs/parent@3", "--resume", "auto"};
  const auto train_to_step_8 = [&] {
    const std::string before = text_of(in("new/metrics.jsonl"));
    Program program(folder_.path(), words);
    for (std::string now = before; program.running() && (now == before || !contains(now, "\"step\":8,"));
         now = text_of(in("new/metrics.jsonl")))
      ::usleep(1000);
    program.send(SIGKILL);
    EXPECT_EQ(program.wait(), 128 + SIGKILL);
    output_ = program.output();
  };
  const auto branches = [&] {
    std::vector<nlohmann::json> found;
    std::ifstream in_(in("new/metrics.jsonl"));
    for (std::string line; std::getline(in_, line);)
      if (const auto record = nlohmann::json::parse(line, nullptr, false);
          record.is_object() && record.value("event", "") == "branch")
        found.push_back(record);
    return found;
  };
  train_to_step_8();
  EXPECT_TRUE(says("no checkpoint yet; starting at step 3\n"));
  const auto last = read_run_log(in("new")).train.back().step;
  train_to_step_8();
  EXPECT_TRUE(
      says(fmt::format("an earlier attempt of {} steps left no checkpoint; starting at step 3\n", last - 3)));
  EXPECT_FALSE(says("content hash"));
  EXPECT_EQ(branches().size(), 1u);
  const auto before = verify_seal(in("parent/checkpoints/step_00000003.h5"));
  std::filesystem::remove_all(in("parent"));
  train_parent("--seed=8");
  const auto after = verify_seal(in("parent/checkpoints/step_00000003.h5"));
  train_to_step_8();
  EXPECT_TRUE(says("an earlier attempt here began at step 3 with a checkpoint of content hash " + before +
                   "; that of "));
  ASSERT_EQ(branches().size(), 1u);
  EXPECT_EQ(branches()[0]["hash"], after);
}

TEST_F(BranchTest, ANameThatIsNotUtf8IsRefusedBeforeItIsInACheckpoint) {
  EXPECT_EQ(run({"train", "tiny.toml", "--name=caf\xe9"}), 2);
  EXPECT_TRUE(says("name (command line) is not UTF-8")) << output_;
}

TEST_F(BranchTest, ItsCurveBeginsOnTheParents) {
  train_parent();
  write_new("[precision]\nweights = 'mxfp8'\n");
  ASSERT_EQ(run({"train", "new.toml", "--from", "runs/parent@3"}), 0) << output_;
  const RunLog parent = read_run_log(in("parent")), joined = read_run_log_with_parent(in("new"));
  EXPECT_EQ(joined.train.front().step, 3);
  EXPECT_EQ(joined.train.front().loss, parent.train[2].loss);
  EXPECT_EQ(joined.past_missing, "");
  EXPECT_EQ(read_run_log_with_parent(in("new") / "metrics.jsonl").train.front().step, 3);
  const std::string loss = fmt::format("{}", joined.validation.back().loss + 1);
  ASSERT_EQ(run({"plot", "runs/new", "--steps-to", loss, "--json"}), 0) << output_;
  EXPECT_FALSE(says("had it where its curve begins"));
  std::filesystem::rename(in("parent"), in("gone"));
  EXPECT_EQ(read_run_log_with_parent(in("new")).train.front().step, 4);
  ASSERT_EQ(run({"plot", "runs/new", "--steps-to", loss}), 0) << output_;
  EXPECT_TRUE(says("note: new: its past is not drawn whole: " + in("parent").string()));
  EXPECT_TRUE(says("before")) << "not its first validation's step";
  ASSERT_EQ(run({"train", "tiny.toml", "--name=parent", "--train.save_every=3", "--seed=9"}), 0) << output_;
  EXPECT_EQ(read_run_log_with_parent(in("new")).train.front().step, 4) << "another parent's";
  ASSERT_EQ(run({"plot", "runs/new"}), 0) << output_;
  EXPECT_TRUE(says("is another one than the run branched from"));
}

}  // namespace
}  // namespace mxtape::test
