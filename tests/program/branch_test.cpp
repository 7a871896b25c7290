// train --from: a run that begins at another one's checkpoint, in other formats.
#include "program/plan/branch.h"

#include <nlohmann/json.hpp>

#include "data/hdf5/seal.h"
#include "program/records/run_log.h"
#include "tests/program/branch_fixture.h"

namespace mxtape::test {
namespace {

TEST_F(BranchTest, FiveLinesBranchARunInOtherFormatsAndTheHeaderSaysWhatDiffers) {
  train_parent();
  write_new(
      "[precision]\nweights = 'mxfp6'\nactivations = 'mxfp6_e3m2'\ngradients = 'mxfp4 round=stochastic'\n");
  ASSERT_EQ(run({"train", "new.toml", "--from", "runs/parent@3"}), 0) << output_;
  EXPECT_TRUE(says("branch      from runs/parent/checkpoints/step_00000003.h5 at step 3, 3 steps to go"));
  EXPECT_TRUE(says("  precision.weights: \"mxfp4 round=stochastic\" -> \"mxfp6\""));
  EXPECT_FALSE(says("precision.gradients:"));
  EXPECT_TRUE(says(", as in the parent's next step"));
  const RunLog log = read_run_log(in("new"));
  EXPECT_EQ(log.train.front().step, 4);
  EXPECT_EQ(log.train.back().step, 6);
}

TEST_F(BranchTest, WithNothingNewItIsTheParentBitForBit) {
  train_parent();
  write_new("description = 'the same'\n");
  ASSERT_EQ(run({"train", "new.toml", "--from", "runs/parent@3"}), 0) << output_;
  EXPECT_TRUE(says("nothing differs that changes numbers"));
  EXPECT_EQ(weights("new", 6), weights("parent", 6));
}

TEST_F(BranchTest, APhaseIsTheSameBitsAsABranchAtItsStep) {
  train_parent("--train.accumulation=3");
  write_new("[[precision.rules]]\nformat = 'mxfp6_e2m3 round=stochastic'\nlayers = 'blocks.*.mlp.*'\n");
  ASSERT_EQ(run({"train", "new.toml", "--from", "runs/parent@3"}), 0) << output_;
  for (const std::string start : {"start=3", "start_fraction=0.5", "start_tokens=576"}) {
    ASSERT_EQ(run({"train", "tiny.toml", "--name=" + start.substr(0, 9) + start.substr(start.find('=')),
                   "--precision.phases=[{" + start +
                       ", rules=[{format=\"mxfp6_e2m3 round=stochastic\", layers=\"blocks.*.mlp.*\"}]}]"}),
              0)
        << output_;
    EXPECT_EQ(weights(start.substr(0, 9) + start.substr(start.find('=')), 6), weights("new", 6)) << start;
  }
  EXPECT_NE(weights("new", 6), weights("parent", 6));
}

TEST_F(BranchTest, FreshMomentsBeginAtZeroAndStayExactOverAResume) {
  train_parent();
  write_new("[train]\nsave_every = 1\nkeep = 9\n");
  const std::vector<std::string> words{"train",   "new.toml",  "--from",  "runs/parent@3",
                                       "--fresh", "optimizer", "--fresh", "schedule"};
  auto resumed = words;
  resumed.insert(resumed.end(), {"--resume", "auto"});
  ASSERT_EQ(run(words), 0) << output_;
  EXPECT_TRUE(says("optim.start: 0 -> 3") && says("schedule.start: 0 -> 3")) << output_;
  EXPECT_NE(weights("new", 6), weights("parent", 6));
  const auto whole = bytes("new", 6);
  std::filesystem::remove(in("new/checkpoints/step_00000006.h5"));
  ASSERT_EQ(run(resumed), 0) << output_;
  EXPECT_TRUE(says("at step 5")) << output_;
  EXPECT_TRUE(bytes("new", 6) == whole);
}

TEST_F(BranchTest, FreshMomentsAreZeroAndTheWeightsTheParents) {
  TinyRun parent(tiny_recipe(6));
  parent.run(3);
  parent.trainer.save(folder_ / "parent.h5");
  Recipe recipe = tiny_recipe(6);
  recipe.optim.start = 3;
  TinyRun branch(recipe);
  branch.trainer.load(CheckpointFile(folder_ / "parent.h5"));
  branch.trainer.save(folder_ / "branch.h5");
  const Hdf5Reader before(folder_ / "parent.h5"), after(folder_ / "branch.h5");
  for (const auto& dataset : before.datasets()) {
    auto want = before.read_f32(dataset.name);
    if (dataset.name.starts_with("optimizer/")) std::fill(want.begin(), want.end(), 0.0f);
    EXPECT_EQ(after.read_f32(dataset.name), want) << dataset.name;
  }
}

TEST_F(BranchTest, WhatMerelyDiffersIsRefusedByNameAndOrigin) {
  train_parent();
  write_atomically(folder_ / "base.toml", "[optim]\nbeta2 = 0.5\n[precision]\nweights = 'mxfp8'\n");
  write_new("extends = 'base.toml'\n");
  EXPECT_EQ(run({"train", "new.toml", "--from", "runs/parent@3"}), 2);
  EXPECT_TRUE(
      says("optim.beta2: 0.99 -> 0.5  (base.toml:2); write it in new.toml, or --optim.beta2=..., or "
           "--allow-change optim.beta2"));
  EXPECT_FALSE(std::filesystem::exists(in("new")));
  EXPECT_EQ(run({"train", "new.toml", "--from", "runs/parent@3", "--allow-change", "optim", "--allow-change",
                 "precision"}),
            0)
      << output_;
}

TEST_F(BranchTest, AFileOfPrecisionAloneThatIsExtendedCountsAsWritten) {
  train_parent();
  write_new("extends = 'precision/mxfp8'\n");
  EXPECT_EQ(run({"train", "new.toml", "--from", "runs/parent@3"}), 0) << output_;
  EXPECT_EQ(run({"train", "precision/mxfp6", "--from", "runs/parent@3"}), 0) << output_;
}

TEST_F(BranchTest, AnotherModelAnotherTokenizerAndTheParentsFolderAreRefused) {
  train_parent();
  write_new("[precision]\nweights = 'mxfp8'\n");
  EXPECT_EQ(run({"train", "new.toml", "--from", "runs/parent@3", "--model.heads=4"}), 2);
  EXPECT_TRUE(says("another model's:\n  model.heads: 2 -> 4  (command line)"));
  EXPECT_EQ(run({"train", "new.toml", "--from", "runs/parent@3", "--name=parent"}), 2);
  EXPECT_TRUE(says("the parent's own folder"));
  EXPECT_EQ(run({"train", "new.toml", "--from", "runs/parent"}), 2);
  EXPECT_TRUE(says("its 6 steps are done; say how many the branch shall have in all: --train.steps=12"));
  TokenFile other = tiny_data();
  other.tokenizer = Tokenizer::from_text(Tokenizer::Kind::characters, "абвгдеёжзийклмнопрстуф");
  other.train = Split::from_tokens(std::vector<std::int32_t>(2000, 1), 18);
  other.validation = other.train;
  TokenFile(other).write(folder_ / "other.h5");
  EXPECT_EQ(run({"train", "new.toml", "--from", "runs/parent@3", "--data.file=other.h5"}), 3);
  EXPECT_TRUE(says("its tokenizer")) << output_;
}

TEST_F(BranchTest, CheckSaysTheSameBeforehandAndWritesNothing) {
  train_parent();
  write_new("[precision]\nweights = 'mxfp8'\n[optim]\nlearning_rate = 1e-3\n");
  ASSERT_EQ(run({"check", "new.toml", "--from", "runs/parent@3"}), 0) << output_;
  EXPECT_TRUE(says("optim.learning_rate: 0.01 -> 0.001"));
  EXPECT_TRUE(says(" in the parent's next step"));
  EXPECT_FALSE(std::filesystem::exists(in("new")));
  ASSERT_EQ(run({"check", "new.toml", "--from", "runs/parent@3", "--json"}), 0) << output_;
  const auto json = nlohmann::json::parse(output_);
  EXPECT_EQ(json["branch"]["step"], 3);
  EXPECT_EQ(json["branch"]["changed"].size(), 2u);
}

TEST_F(BranchTest, AnotherTextUnderTheParentsNameIsRefusedUnlessItIsWrittenOrAllowed) {
  train_parent();
  write_new("[precision]\nweights = 'mxfp8'\n");
  TokenFile other = tiny_data();
  other.train = other.validation;
  std::filesystem::remove(folder_ / "data.h5");
  TokenFile(other).write(folder_ / "data.h5");
  const std::vector<std::string> words{"train", "new.toml", "--from", "runs/parent@3"};
  const auto with = [&](std::initializer_list<const char*> more) {
    auto all = words;
    all.insert(all.end(), more.begin(), more.end());
    return run(all);
  };
  EXPECT_EQ(run(words), int(ExitCode::usage));
  EXPECT_TRUE(
      says("data.h5: its content is not what runs/parent/checkpoints/step_00000003.h5 was trained with"));
  EXPECT_FALSE(std::filesystem::exists(in("new")));
  EXPECT_EQ(with({"--allow-change", "precision"}), int(ExitCode::usage)) << output_;
  EXPECT_EQ(with({"--allow-change", "data"}), 0) << output_;
  EXPECT_EQ(with({"--data.file=data.h5", "--name=written"}), 0) << output_;
}

TEST_F(BranchTest, WithoutAFileItIsWhatTheCommandLineSays) {
  train_parent();
  const std::vector<std::string> words{"train", "--from", "runs/parent@3", "--precision.weights=mxfp8"};
  EXPECT_EQ(run(words), int(ExitCode::usage));
  EXPECT_TRUE(says("--from runs/parent@3: no recipe is given, so what is new has no name; add --name=..."));
  auto named = words, checked = words, resumed = words;
  named.push_back("--name=x");
  checked.front() = "check";
  checked.push_back("--name=x");
  ASSERT_EQ(run(checked), 0) << output_;
  EXPECT_TRUE(says("ready: mxtape train --precision.weights=mxfp8 --name=x --from 'runs/parent@3'\n"));
  ASSERT_EQ(run(named), 0) << output_;
  EXPECT_TRUE(says("  precision.weights: \"mxfp4 round=stochastic\" -> \"mxfp8\"")) << output_;
  named.insert(named.end(), {"--resume", "auto"});
  EXPECT_EQ(run(named), 0) << output_;
  EXPECT_TRUE(says("nothing was trained"));
  write_new("precision.weights = 'mxfp8'\n");
  ASSERT_EQ(run({"train", "new.toml", "--from", "runs/parent@3", "--name=x", "--train.out=other"}), 0);
  EXPECT_TRUE(bytes("x", 6) == bytes("x", 6, "other"));
}

TEST_F(BranchTest, HasTheParentsKeysThatCheckpointsDoNotHold) {
  train_parent("--compute.threads=1");
  write_new("[precision]\nweights = 'mxfp8'\n");
  ASSERT_EQ(run({"train", "new.toml", "--from", "runs/parent@3"}), 0) << output_;
  EXPECT_TRUE(contains(text_of(in("new/recipe.toml")), "threads = 1                           # the parent"));
  EXPECT_TRUE(says(", 1 thread\n")) << output_;
  std::filesystem::remove_all(in("new"));
  ASSERT_EQ(run({"train", "new.toml", "--from", "runs/parent@3", "--compute.threads=2"}), 0) << output_;
  EXPECT_TRUE(
      contains(text_of(in("new/recipe.toml")), "threads = 2                           # command line"));
}

TEST_F(BranchTest, ALongerScheduleSaysWhyTheRateJumpsAndHowToHoldIt) {
  ASSERT_EQ(run({"train", "tiny.toml", "--name=parent", "--schedule.kind=cosine",
                 "--schedule.final_fraction=0.1", "--schedule.warmup_steps=0", "--train.save_every=3"}),
            0)
      << output_;
  ASSERT_EQ(run({"check", "--from", "runs/parent@3", "--name=x", "--train.steps=9"}), 0) << output_;
  EXPECT_TRUE(says("as the schedule ends with train.steps, 6 -> 9; to hold the rate: "));
  const auto at = output_.find("--schedule.kind=constant");
  std::istringstream words(output_.substr(at, output_.find('\n', at) - at));
  std::vector<std::string> held{"check", "--from", "runs/parent@3", "--name=x", "--train.steps=9"};
  for (std::string word; words >> word;) held.push_back(word);
  ASSERT_EQ(run(held), 0) << output_;
  const std::string rate = held.back().substr(held.back().find('=') + 1);
  EXPECT_TRUE(says("  learning rate " + rate));
  EXPECT_FALSE(says("to hold the rate"));
  ASSERT_EQ(run({"check", "--from", "runs/parent@3", "--name=x", "--optim.learning_rate=1"}), 0) << output_;
  EXPECT_FALSE(says("to hold the rate")) << "somebody asked for this one";
}

TEST_F(BranchTest, AStartThatTheRunHasNotReachedIsRefused) {
  for (const std::string key : {"--optim.start=4", "--schedule.start=3"})
    for (const char* command : {"train", "check"}) {
      EXPECT_EQ(run({command, "tiny.toml", key}), 2) << command << key;
      EXPECT_TRUE(says("the run begins at step 0; want none above it")) << output_;
    }
}

TEST_F(BranchTest, AStartBeyondItsStepIsRefusedLikeARunsOwn) {
  train_parent();
  EXPECT_EQ(run({"check", "--from", "runs/parent@3", "--name=x", "--schedule.start=4"}), 2) << output_;
  EXPECT_TRUE(says("the run begins at step 3; want none above it")) << output_;
}

TEST_F(BranchTest, AnotherCheckpointBesideTheParentsIsRefused) {
  train_parent();
  const std::string file = "runs/parent/checkpoints/step_00000006.h5";
  EXPECT_EQ(run({"train", "--from", "runs/parent@3", "--name=x", "--resume", file}), 2) << output_;
  EXPECT_TRUE(says("a run begins at one checkpoint; want one of them")) << output_;
}

TEST_F(BranchTest, OneWithRulesOnAParentWithRulesGoesOnToTheSameBytes) {
  train_parent_with_a_rule();
  write_new(
      "[train]\nsave_every = 1\nkeep = 9\n[[precision.rules]]\nlayers = 'blocks.0.*'\nformat = 'bf16'\n");
  const std::vector<std::string> words{"train", "new.toml", "--from", "runs/old@3", "--resume", "auto"};
  ASSERT_EQ(run(words), 0) << output_;
  const auto whole = bytes("new", 6);
  for (const char* last : {"5", "6"})
    std::filesystem::remove(in(fmt::format("new/checkpoints/step_0000000{}.h5", last)));
  ASSERT_EQ(run(words), 0) << output_;
  EXPECT_EQ(bytes("new", 6), whole);
  EXPECT_EQ(CheckpointFile(in("new/checkpoints/step_00000006.h5")).header().recipe.precision.rules.size(),
            2u);
}

TEST_F(BranchTest, AFileMayExtendTheParentsAndAddRules) {
  train_parent_with_a_rule();
  write_new(
      "extends = 'old.toml'\n[model]\nvocabulary = 13\n[[precision.rules]]\nlayers = 'blocks.0.*'\nformat = "
      "'bf16'\n");
  EXPECT_EQ(run({"check", "new.toml", "--from", "runs/old@3"}), 0) << output_;
  EXPECT_TRUE(says("precision.rules 2: nothing -> rule: layers = \"blocks.0.*\"")) << output_;
}

}  // namespace
}  // namespace mxtape::test
