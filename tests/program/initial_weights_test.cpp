// train.init: a new run that begins with the weights of a run, an import, or a model from elsewhere.
#include "program/plan/initial_weights.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "program/models/export.h"
#include "program/models/import.h"
#include "program/records/run_log.h"
#include "tests/program/program_fixture.h"
#include "train/checkpoint.h"

namespace mxtape::test {
namespace {

namespace fs = std::filesystem;

class InitTest : public ProgramTest {
 protected:
  /// A run of 3 steps, given out as a Hugging Face folder and as llm.c's file, and imported from there.
  void make_models() {
    ASSERT_EQ(run({"train", "tiny.toml", "--name=first", "--train.steps=3"}), 0) << output_;
    const std::string run_name = (folder_ / "runs/first").string();
    (void)export_model({.run = run_name, .out = folder_ / "hf"});
    (void)export_model({.run = run_name, .out = folder_ / "model.bin", .form = ExportForm::llmc});
    (void)import_model({.source = folder_ / "hf", .out = folder_ / "models/hf"});
    write_atomically(
        folder_ / "tune.toml",
        std::string("[data]\nfile = 'data.h5'\n[train]\nsteps = 4\nbatch_size = 2\nsample_tokens = 0\n"
                    "[schedule]\nwarmup_steps = 1\n[precision]\nweights = 'mxfp4'\nactivations = 'mxfp6'\n"));
  }
  int tune(const std::string& name, const std::string& init, std::vector<std::string> more = {}) {
    std::vector<std::string> words{"train", "tune.toml", "--name=" + name, "--train.init=" + init};
    words.insert(words.end(), more.begin(), more.end());
    return run(words);
  }
  fs::path in(const std::string& file) const { return folder_ / "runs" / file; }
  CheckpointFile checkpoint_of_step(const std::string& name, std::int64_t step) const {
    return CheckpointFile(in(fmt::format("{}/checkpoints/step_{:08}.h5", name, step)));
  }
  std::vector<float> weights(const std::string& name, std::int64_t step) const {
    const CheckpointFile file = checkpoint_of_step(name, step);
    std::vector<float> all;
    for (const auto& dataset : file.file().datasets())
      for (const float x : file.file().read_f32(dataset.name)) all.push_back(x);
    return all;
  }
  nlohmann::json parent_of(const std::string& name) const {
    return nlohmann::json::parse(read_whole_text(in(name) / "parent.json"));
  }
};

TEST_F(InitTest, TheSameWeightsTrainToTheSameBitsWhateverTheyLieIn) {
  make_models();
  const std::vector<std::string> inits{"models/hf",    "hf",
                                       "model.bin",    "runs/first",
                                       "runs/first@3", "runs/first/checkpoints/step_00000003.h5"};
  for (std::size_t i = 0; i < inits.size(); ++i) {
    const std::string name = fmt::format("t{}", i);
    ASSERT_EQ(tune(name, inits[i], {"--model.dropout=0.1"}), 0) << inits[i] << output_;
    EXPECT_TRUE(says("init        " + inits[i].substr(0, inits[i].find('@'))));
    EXPECT_EQ(weights(name, 4), weights("t0", 4)) << inits[i];
    EXPECT_EQ(parent_of(name)["hash"], parent_of("t0")["hash"]) << inits[i];
  }
  // An import has no moments and is at step 0, so it is where a branch of it begins, too.
  ASSERT_EQ(run({"train", "tune.toml", "--from", "models/hf", "--name=branch", "--model.dropout=0.1"}), 0)
      << output_;
  EXPECT_EQ(weights("branch", 4), weights("t0", 4));
  EXPECT_NE(weights("t0", 4), weights("first", 3));
}

TEST_F(InitTest, AtStepZeroTheWeightsAreThoseOfTheInitAndMomentsAreZero) {
  make_models();
  ASSERT_EQ(tune("t", "runs/first", {"--train.on_divergence=rollback", "--train.keep=9"}), 0) << output_;
  const CheckpointFile first = checkpoint_of_step("first", 3), begun = checkpoint_of_step("t", 0);
  for (const auto& dataset : begun.file().datasets()) {
    const auto values = begun.file().read_f32(dataset.name);
    const bool weight = dataset.name.starts_with("parameters/");
    EXPECT_EQ(values, weight ? first.file().read_f32(dataset.name) : std::vector<float>(values.size()))
        << dataset.name;
  }
  EXPECT_EQ(begun.header().step, 0);
  EXPECT_EQ(begun.header().recipe.train.init, "runs/first");
}

TEST_F(InitTest, WhereItCameFromIsInTheFolderTheCheckpointAndTheMetrics) {
  make_models();
  ASSERT_EQ(tune("t", "hf", {"--model.context=8"}), 0) << output_;
  EXPECT_TRUE(says("model.context: 16 -> 8"));
  const std::string hash = parent_of("t")["hash"];
  EXPECT_EQ(hash.size(), 32u);
  EXPECT_TRUE(says("content hash " + hash));
  EXPECT_EQ(parent_of("t")["event"], "init");
  EXPECT_EQ(parent_of("t")["run"], (folder_ / "hf").string());
  const auto lineage = nlohmann::json::parse(checkpoint_of_step("t", 4).header().lineage);
  ASSERT_EQ(lineage.size(), 2u) << lineage.dump();
  EXPECT_EQ(lineage[0]["event"], "import");
  EXPECT_EQ(lineage[1]["event"], "init");
  EXPECT_EQ(lineage[1]["hash"], hash);
  EXPECT_EQ(lineage[1]["changed"][0], "model.context: 16 -> 8");
  const RunLog log = read_run_log(in("t"));
  ASSERT_EQ(log.turns.size(), 1u);
  EXPECT_EQ(log.turns[0].event, "init");
  ASSERT_EQ(run({"info", "runs/t"}), 0);
  EXPECT_TRUE(says("init        of hf, content hash " + hash));
  EXPECT_TRUE(fs::exists(in("t") / "tokenizer.json")) << "for export";
}

TEST_F(InitTest, ModelKeysComeFromThereAndOneThatContradictsIsRefusedByName) {
  make_models();
  ASSERT_EQ(tune("t", "hf"), 0) << output_;
  const ModelConfig first = checkpoint_of_step("first", 3).header().recipe.model;
  ModelConfig got = checkpoint_of_step("t", 4).header().recipe.model;
  EXPECT_EQ(got.hidden(), first.hidden());
  EXPECT_EQ(std::tuple(got.layers, got.heads, got.width, got.context, got.vocabulary),
            std::tuple(first.layers, first.heads, first.width, first.context, first.vocabulary));
  EXPECT_EQ(tune("u", "hf", {"--model.layers=3", "--model.width=32", "--model.norm=rms"}),
            int(ExitCode::usage));
  EXPECT_TRUE(says("model.layers: 2 -> 3  (command line)"));
  EXPECT_TRUE(says("model.norm: \"layer\" -> \"rms\"  (command line)"));
  EXPECT_FALSE(says("model.width:"));
  EXPECT_FALSE(fs::exists(in("u")));
  EXPECT_EQ(tune("u", "hf", {"--model.context=17"}), int(ExitCode::usage)) << "a table has no more rows";
  EXPECT_EQ(tune("u", "hf", {"--model.mlp_width=0"}), 0) << "0 is what is there" << output_;
}

TEST_F(InitTest, ALargerVocabularyKeepsTheRowsThatAreThereAndDrawsTheOthers) {
  make_models();
  const std::int64_t known = tiny_data().tokenizer.size();
  const std::vector<std::string> more{fmt::format("--model.vocabulary={}", known + 5), "--model.context=8",
                                      "--train.on_divergence=rollback", "--train.keep=9"};
  ASSERT_EQ(tune("t", "runs/first", more), 0) << output_;
  const auto before = checkpoint_of_step("first", 3).file().read_f32("parameters/tokens.weight"),
             after = checkpoint_of_step("t", 0).file().read_f32("parameters/tokens.weight");
  ASSERT_EQ(after.size(), before.size() + 5 * 32);
  EXPECT_TRUE(std::equal(before.begin(), before.end(), after.begin()));
  EXPECT_TRUE(std::all_of(after.begin() + std::ptrdiff_t(before.size()), after.end(),
                          [](float x) { return x != 0 && std::fabs(x) < 0.2f; }));
  const auto positions = checkpoint_of_step("first", 3).file().read_f32("parameters/positions.weight"),
             kept = checkpoint_of_step("t", 0).file().read_f32("parameters/positions.weight");
  ASSERT_EQ(kept.size(), positions.size() / 2);
  EXPECT_TRUE(std::equal(kept.begin(), kept.end(), positions.begin()));
}

TEST_F(InitTest, ARunGoesOnWhenWhatItBeganWithIsGone) {
  make_models();
  const std::vector<std::string> saves{"--train.save_every=2", "--train.keep=9"};
  auto resumed = saves, elsewhere = saves;
  resumed.insert(resumed.end(), {"--resume", "auto"});
  elsewhere.push_back("--train.out=whole");
  ASSERT_EQ(tune("t", "models/hf", elsewhere), 0) << output_;
  ASSERT_EQ(tune("t", "models/hf", saves), 0) << output_;
  fs::remove(in("t/checkpoints/step_00000004.h5"));
  fs::rename(folder_ / "models", folder_ / "elsewhere");
  ASSERT_EQ(run({"check", "tune.toml", "--name=t", "--train.init=models/hf", "--resume", "auto"}), 0)
      << output_;
  ASSERT_EQ(tune("t", "models/hf", resumed), 0) << output_;
  EXPECT_TRUE(says("at step 2"));
  EXPECT_TRUE(read_whole(in("t/checkpoints/step_00000004.h5")) ==
              read_whole(folder_ / "whole/t/checkpoints/step_00000004.h5"));
  EXPECT_EQ(tune("new", "models/hf"), int(ExitCode::data));
  EXPECT_TRUE(says("train.init: models/hf: nothing of that name; want a run's folder"));
  EXPECT_FALSE(fs::exists(in("new")));
}

TEST_F(InitTest, AReplayFromTheBeginningWantsTheSameWeights) {
  make_models();
  ASSERT_EQ(tune("t", "models/hf"), 0) << output_;
  ASSERT_EQ(run({"replay", "runs/t", "--step", "3"}), 0) << output_;
  EXPECT_TRUE(says(", bit for bit as on record"));
  // Another model of the same name.
  ASSERT_EQ(run({"train", "tiny.toml", "--name=second", "--train.steps=2"}), 0) << output_;
  fs::remove_all(folder_ / "models/hf");
  (void)export_model({.run = in("second").string(), .out = folder_ / "hf2"});
  (void)import_model({.source = folder_ / "hf2", .out = folder_ / "models/hf"});
  EXPECT_EQ(run({"replay", "runs/t", "--step", "3"}), int(ExitCode::data));
  EXPECT_TRUE(says("models/hf has weights of content hash "));
  EXPECT_TRUE(says("the run began with " + parent_of("t")["hash"].get<std::string>()));
  EXPECT_TRUE(says("no checkpoint before that step is left; keep some with train.keep_every"));
  ASSERT_EQ(tune("t", "models/hf", {"--resume", "no"}), 0) << output_;
  EXPECT_TRUE(says("an earlier attempt here began with weights of content hash "));
}

TEST_F(InitTest, WhatCannotBeBegunWithHasOneClearError) {
  make_models();
  fs::create_directory(folder_ / "empty");
  EXPECT_EQ(tune("t", "empty"), int(ExitCode::data));
  EXPECT_TRUE(says("empty: holds neither checkpoints nor a config.json"));
  EXPECT_EQ(tune("t", "data.h5"), int(ExitCode::data));
  EXPECT_TRUE(says("train.init: data.h5: not an mxtape checkpoint"));
  EXPECT_EQ(tune("t", "tune.toml"), int(ExitCode::data));
  EXPECT_EQ(tune("first", "runs/first", {"--resume", "no"}), int(ExitCode::usage));
  EXPECT_TRUE(says("is the run's own folder")) << output_;
  EXPECT_EQ(list_checkpoints(in("first")).size(), 1u);
  EXPECT_EQ(tune("t", "hf", {"--from", "models/hf"}), int(ExitCode::usage));
  EXPECT_TRUE(says("--from models/hf: train.init = \"hf\" (command line)"));
  auto altered = read_whole(folder_ / "models/hf/checkpoints/step_00000000.h5");
  altered[altered.size() / 2] ^= std::byte{1};
  write_atomically(folder_ / "models/hf/checkpoints/step_00000000.h5", altered);
  EXPECT_EQ(tune("t", "models/hf"), int(ExitCode::data));
  EXPECT_FALSE(fs::exists(in("t")));
}

TEST_F(InitTest, TheDataMustHaveTheTokensThatTheWeightsKnow) {
  make_models();
  write_atomically(folder_ / "other.txt", std::string(4000, 'z') + std::string(1000, 'y'));
  ASSERT_EQ(run({"prepare", "other.txt", "--tokenizer", "char", "--out", "other.h5"}), 0) << output_;
  EXPECT_EQ(tune("t", "hf", {"--data.file=other.h5"}), int(ExitCode::data));
  EXPECT_TRUE(says("other.h5: its tokenizer (2 characters) is not the one that hf was trained with"));
  EXPECT_TRUE(says("prepare TEXT --tokenizer hf --out FILE"));
  ASSERT_EQ(tune("t", "model.bin"), 0) << output_;
  EXPECT_TRUE(says("no tokenizer came with the weights: that of data.h5 ("));
}

TEST_F(InitTest, CheckShowsWhatARunWouldBeginWithAndWhatItWouldRefuse) {
  make_models();
  ASSERT_EQ(run({"check", "tune.toml", "--train.init=hf"}), 0) << output_;
  EXPECT_TRUE(says("init        hf, a model from elsewhere, content hash "));
  EXPECT_TRUE(says("width = 32                            # train.init"));
  ASSERT_EQ(run({"check", "tune.toml", "--train.init=hf", "--json"}), 0);
  EXPECT_EQ(nlohmann::json::parse(output_)["init"]["weights"], "hf, a model from elsewhere");
  EXPECT_EQ(run({"check", "tune.toml", "--train.init=absent"}), int(ExitCode::data));
  EXPECT_EQ(run({"check", "tune.toml", "--train.init=runs/first", "--name=first"}), int(ExitCode::usage));
  ASSERT_EQ(tune("t", "hf"), 0) << output_;
  EXPECT_EQ(run({"check", "tune.toml", "--train.init=hf", "--name=t", "--json"}), int(ExitCode::usage));
  const auto begin = output_.find("{\n"), end = output_.find("\n}\n") + 2;
  EXPECT_EQ(nlohmann::json::parse(output_.substr(begin, end - begin))["problems"].size(), 1u) << output_;
}

TEST_F(InitTest, ASweepsArmsBeginWithTheSameWeights) {
  make_models();
  ASSERT_EQ(run({"train", "tiny.toml", "--name=second", "--train.steps=2"}), 0) << output_;
  write_atomically(folder_ / "other.toml",
                   std::string("extends = ['tune.toml']\n[train]\ninit = 'runs/second'\n"));
  write_atomically(folder_ / "s.toml",
                   std::string("base = 'other.toml'\nbaseline = 'a'\nseeds = [1, 2]\ntolerance = 0.1\n"
                               "[set]\ntrain.init = 'models/hf'\n"
                               "[[arm]]\nname = 'a'\n"
                               "[[arm]]\nname = 'b'\nset.precision.weights = 'mxfp8'\n"));
  ASSERT_EQ(run({"sweep", "s.toml", "--jobs", "1"}), 0) << output_;
  const auto of = [&](const std::string& run) {
    return nlohmann::json::parse(read_whole_text(folder_ / ("runs/s/runs/" + run + "/parent.json")))["hash"];
  };
  EXPECT_EQ(of("a/1"), of("b/1"));
  EXPECT_EQ(of("a/1"), of("b/2"));
  ASSERT_EQ(run({"sweep", "s.toml", "--jobs", "1"}), 0) << output_;
  fs::remove_all(folder_ / "models/hf");
  (void)export_model({.run = in("second").string(), .out = folder_ / "hf2"});
  (void)import_model({.source = folder_ / "hf2", .out = folder_ / "models/hf"});
  EXPECT_EQ(run({"sweep", "s.toml", "--jobs", "1"}), int(ExitCode::usage));
  EXPECT_TRUE(says("began with weights of hash "));
}

}  // namespace
}  // namespace mxtape::test
