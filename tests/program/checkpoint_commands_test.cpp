// verify, info and diff: what they say of whole, damaged and different checkpoints.
#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "data/hdf5/seal.h"
#include "program/records/run_name.h"
#include "tests/program/program_fixture.h"
#include "train/checkpoint.h"

namespace mxtape::test {
namespace {

class CheckpointCommands : public ProgramTest {
 protected:
  CheckpointCommands() {
    EXPECT_EQ(run({"train", "tiny.toml", "--train.save_every=3"}), 0) << output_;
    copy_ = read_whole(checkpoint(6));
  }

  /// Writes `changed` of the newest checkpoint's tensors and header under a sound seal.
  void rewrite(const std::filesystem::path& to,
               const std::function<void(const std::string&, std::vector<float>&)>& change,
               std::int64_t step = 6, const std::string& without = "") {
    const Hdf5Reader old(checkpoint(6));
    Hdf5Writer file(to);
    file.attribute("/", "content", std::string("mxtape checkpoint"));
    file.attribute("/", "layout_version", std::int64_t{1});
    file.attribute("/", "step", step);
    for (const char* name : {"recipe", "tokenizer", "data_hash"})
      file.attribute("/", name, old.text_attribute("/", name));
    for (const auto& info : old.datasets()) {
      if (info.name == without) continue;
      auto values = old.read_f32(info.name);
      change(info.name, values);
      Shape shape;
      for (const auto extent : info.dims) shape.dims[std::size_t(shape.rank++)] = extent;
      file.dataset(info.name, shape, DType::f32, values.data());
    }
    file.commit(Seal::yes);
  }
  static void nothing(const std::string&, std::vector<float>&) {}
  void put_back() const { write_atomically(checkpoint(6), copy_); }

  nlohmann::json json() const { return nlohmann::json::parse(output_.substr(0, output_.rfind('}') + 1)); }

  std::vector<std::byte> copy_;
};

TEST_F(CheckpointCommands, VerifySaysOkOfEveryFileOfARunAndOfTokens) {
  EXPECT_EQ(run({"verify", "runs/tiny", "data.h5", "runs/tiny@3"}), 0) << output_;
  for (const char* text :
       {"ok      runs/tiny/checkpoints/step_00000006.h5  checkpoint of step 6, ",
        "ok      runs/tiny/checkpoints/step_00000003.h5  checkpoint of step 3, ",
        "ok      runs/tiny/recipe.toml  recipe", "ok      runs/tiny/metrics.jsonl  metrics, 6 steps",
        "ok      data.h5  token file, "})
    EXPECT_TRUE(says(text));
  EXPECT_EQ(run({"verify", "runs/tiny", "--json"}), 0);
  EXPECT_TRUE(json()["ok"]);
  EXPECT_EQ(json()["files"].size(), 4u);
}

TEST_F(CheckpointCommands, VerifyNamesWhatIsWrongAndEndsWithTheFirstOnesCode) {
  auto damaged = copy_;
  damaged[damaged.size() / 2] ^= std::byte{1};
  write_atomically(checkpoint(6), damaged);
  write_atomically(folder_ / "runs/tiny/metrics.jsonl", std::string_view("{\"step\":1}\nno record\n{}\n"));
  EXPECT_EQ(run({"verify", "data.h5", "runs/tiny"}), int(ExitCode::data));
  EXPECT_TRUE(says("ok      data.h5"));
  EXPECT_TRUE(says("FAILED  runs/tiny/checkpoints/step_00000006.h5: the content hash differs"));
  EXPECT_TRUE(says("ok      runs/tiny/checkpoints/step_00000003.h5"));
  EXPECT_TRUE(says("FAILED  runs/tiny/metrics.jsonl:1: not a record of a run"));
  EXPECT_TRUE(says("mxtape: verify: 2 of 5 failed; the first: runs/tiny/checkpoints/step_00000006.h5: the"));
  EXPECT_EQ(run({"verify", "--json", "runs/tiny"}), int(ExitCode::data));
  EXPECT_FALSE(json()["ok"]);
  EXPECT_FALSE(json()["files"][0]["ok"]);
  EXPECT_EQ(json()["files"][0]["kind"], "data");
}

// The seal cannot see these: whoever wrote the file has sealed the fault.
TEST_F(CheckpointCommands, VerifyFindsWhatIsWrongUnderASoundSeal) {
  rewrite(folder_ / "nan.h5", [](const std::string& name, std::vector<float>& values) {
    if (name == "optimizer/v/blocks.1.mlp.up.bias") values[5] = std::numeric_limits<float>::infinity();
  });
  EXPECT_EQ(run({"verify", "nan.h5"}), int(ExitCode::data));
  EXPECT_TRUE(
      says("'optimizer/v/blocks.1.mlp.up.bias' holds 1 numbers that are not finite, the first at [5]"));
  rewrite(folder_ / "cut.h5", nothing, 6, "optimizer/m/norm.gain");
  EXPECT_EQ(run({"verify", "cut.h5"}), int(ExitCode::data));
  EXPECT_TRUE(says("has no 'optimizer/m/norm.gain'"));
  rewrite(folder_ / "step_00000005.h5", nothing);
  EXPECT_EQ(run({"verify", "step_00000005.h5"}), int(ExitCode::data));
  EXPECT_TRUE(
      says("it holds step 6, its name says another; it was renamed: give it back the name "
           "step_00000006.h5"));
  rewrite(folder_ / "negative.h5", nothing, -1);
  EXPECT_EQ(run({"verify", "negative.h5"}), int(ExitCode::data));
  EXPECT_TRUE(says("negative.h5: it says that -1 of 6 steps are done"));
  rewrite(folder_ / "copy.h5", nothing);
  EXPECT_EQ(run({"verify", "copy.h5"}), 0) << output_;
}

TEST_F(CheckpointCommands, VerifyOfNothingIsNoPass) {
  std::filesystem::create_directories(folder_ / "empty");
  EXPECT_EQ(run({"verify", "empty"}), int(ExitCode::data));
  EXPECT_TRUE(says("empty: holds no checkpoint; want a run's folder, or a file"));
  EXPECT_EQ(run({"verify", "gone.h5"}), int(ExitCode::data));
  EXPECT_TRUE(says("gone.h5: nothing of that name"));
  EXPECT_EQ(run({"verify"}), int(ExitCode::usage));
}

TEST_F(CheckpointCommands, ARenamedCheckpointIsNotResumedFrom) {
  std::filesystem::rename(checkpoint(3), checkpoint(9));
  EXPECT_EQ(run({"train", "tiny.toml", "--train.steps=12", "--resume=auto", "--allow-change=train.steps"}), 0)
      << output_;
  EXPECT_TRUE(says("rejected runs/tiny/checkpoints/step_00000009.h5: it holds step 3"));
  EXPECT_TRUE(says("resumed from runs/tiny/checkpoints/step_00000006.h5 at step 6"));
  EXPECT_EQ(run({"eval", checkpoint(9).string() + ".rejected", "--precision=f32"}), 0) << "nothing is lost";
}

TEST_F(CheckpointCommands, ARunAndAStepNameACheckpoint) {
  EXPECT_EQ(checkpoint_of((folder_ / "runs/tiny").string()), checkpoint(6));
  EXPECT_EQ(checkpoint_of((folder_ / "runs/tiny/").string() + "@3"), checkpoint(3));
  EXPECT_EQ(checkpoint_of((folder_ / "runs/tiny@00003").string()), checkpoint(3));
  EXPECT_EQ(checkpoint_of(checkpoint(3).string()), checkpoint(3));
  EXPECT_EQ(run({"eval", "runs/tiny@3", "--precision=f32"}), 0) << output_;
  EXPECT_TRUE(says("checkpoint  runs/tiny/checkpoints/step_00000003.h5, step 3"));
  EXPECT_EQ(run({"info", "runs/tiny@4"}), int(ExitCode::data));
  EXPECT_TRUE(says("runs/tiny: no checkpoint of step 4; it has those of 6, 3"));
  EXPECT_EQ(run({"info", "runs/tiny@last"}), int(ExitCode::usage));
  EXPECT_TRUE(says("'last' is no step; want RUN@STEP, such as runs/tiny@1000"));
  // Who has called a run so means the run.
  std::filesystem::rename(folder_ / "runs/tiny", folder_ / "runs/tiny@3");
  EXPECT_EQ(run({"info", "runs/tiny@3"}), 0) << output_;
  EXPECT_TRUE(says("step        6 of 6"));
  std::filesystem::create_directories(folder_ / "runs/tiny");
  EXPECT_EQ(run({"info", "runs/tiny"}), int(ExitCode::data));
}

TEST_F(CheckpointCommands, InfoTellsTheHeaderThePrecisionInForceAndEveryTensor) {
  EXPECT_EQ(run({"info", "runs/tiny"}), 0) << output_;
  for (const char* text : {"by mxtape 0.", "step        6 of 6", "recipe      tiny   seed 7",
                           "model       gpt2: layers 2, heads 2", " characters\n",
                           "data        data.h5, hash ", "mxfp4 round=stochastic", "\ntensor  ",
                           "\nparameters/blocks.1.attn.qkv.weight   [96, 32]   f32           12288  "})
    EXPECT_TRUE(says(text));
  EXPECT_EQ(run({"info", "runs/tiny@3", "--json"}), 0) << output_;
  const auto info = json();
  EXPECT_EQ(info["step"], 3);
  const CheckpointFile file(checkpoint(3));
  ASSERT_EQ(info["tensors"].size(), file.file().datasets().size());
  for (const auto& tensor : info["tensors"]) {
    double squares = 0, largest = 0;
    const auto values = file.file().read_f32(tensor["name"].get<std::string>());
    for (const float x : values)
      squares += double(x) * double(x), largest = std::max(largest, std::abs(double(x)));
    EXPECT_EQ(tensor["largest"], largest);
    EXPECT_NEAR(tensor["rms"].get<double>(), std::sqrt(squares / double(values.size())), 1e-12);
    EXPECT_EQ(tensor["bytes"], 4 * values.size());
  }
}

TEST_F(CheckpointCommands, InfoShowsThePrecisionOfItsStepAndNoOther) {
  const std::string phase =
      "\n[[precision.phases]]\nstart = 3\n[[precision.phases.rules]]\nlayers = \"*\"\nformat = "
      "\"mxfp6_e2m3\"\n";
  auto recipe = read_whole(folder_ / "tiny.toml");
  for (const char c : phase) recipe.push_back(std::byte(c));
  write_atomically(folder_ / "phases.toml", recipe);
  ASSERT_EQ(run({"train", "phases.toml", "--name=phases", "--train.save_every=1", "--train.keep=6"}), 0)
      << output_;
  EXPECT_EQ(run({"info", "runs/phases@2"}), 0);
  EXPECT_TRUE(says("mxfp4"));
  EXPECT_EQ(output_.find("mxfp6"), std::string::npos) << output_;
  EXPECT_EQ(run({"info", "runs/phases@3"}), 0);
  EXPECT_TRUE(says("mxfp6_e2m3"));
  EXPECT_EQ(output_.find("mxfp4"), std::string::npos) << output_;
}

TEST_F(CheckpointCommands, DiffOfEqualRunsIsNothing) {
  ASSERT_EQ(run({"train", "tiny.toml", "--train.save_every=3", "--train.out=again"}), 0) << output_;
  EXPECT_EQ(run({"diff", "runs/tiny", "again/tiny"}), 0) << output_;
  EXPECT_TRUE(says("the same: step 6, "));
  EXPECT_EQ(run({"diff", "runs/tiny", "again/tiny", "--json"}), 0) << output_;
  EXPECT_TRUE(json()["same"]);
}

TEST_F(CheckpointCommands, DiffDoesNotMindWhatARunIsCalledAndCountsInWords) {
  ASSERT_EQ(run({"train", "tiny.toml", "--train.save_every=3", "--name=twin", "--train.out=again"}), 0)
      << output_;
  EXPECT_EQ(run({"diff", "runs/tiny", "again/twin"}), 0) << output_;
  ASSERT_EQ(run({"train", "tiny.toml", "--train.save_every=2", "--name=twin", "--train.out=other"}), 0)
      << output_;
  EXPECT_EQ(run({"diff", "runs/tiny", "other/twin"}), int(ExitCode::differs));
  EXPECT_TRUE(says(" differ: 0 of ") && says(" tensors, 1 key of the recipe, 0 other fields\n")) << output_;
}

TEST_F(CheckpointCommands, DiffNamesTensorIndexValuesAndHowMany) {
  float before = 0;
  rewrite(folder_ / "other.h5", [&](const std::string& name, std::vector<float>& values) {
    if (name != "parameters/blocks.0.mlp.up.weight") return;
    before = values[2 * 32 + 7];
    values[2 * 32 + 7] = before + 0.5f;
    values[3 * 32] += 2;
  });
  EXPECT_EQ(run({"diff", "runs/tiny", "other.h5"}), int(ExitCode::differs)) << output_;
  EXPECT_TRUE(says("parameters/blocks.0.mlp.up.weight "));
  EXPECT_TRUE(says(fmt::format(" 2          [2, 7]  {:>15}  {:>15}           2", before, before + 0.5f)));
  EXPECT_TRUE(says("1 of "));
  EXPECT_TRUE(says("written_by  mxtape 0."));
  EXPECT_TRUE(says("mxtape: runs/tiny/checkpoints/step_00000006.h5 and other.h5 differ: 1 of "));
  EXPECT_EQ(run({"diff", "runs/tiny", "other.h5", "--json"}), int(ExitCode::differs));
  const auto tensor = json()["tensors"][0];
  EXPECT_EQ(tensor["first"], nlohmann::json::parse("[2, 7]"));
  EXPECT_EQ(tensor["differ"], 2);
  EXPECT_EQ(tensor["a"].get<float>(), before);
}

TEST_F(CheckpointCommands, DiffTellsRecipeKeysStepsAndWhatOnlyOneHas) {
  ASSERT_EQ(run({"train", "tiny.toml", "--optim.beta2=0.9", "--train.out=other", "--model.layers=1"}), 0)
      << output_;
  EXPECT_EQ(run({"diff", "runs/tiny@3", "other/tiny"}), int(ExitCode::differs));
  EXPECT_TRUE(says("step        3 -> 6"));
  EXPECT_TRUE(says("recipe      optim.beta2: 0.99 -> 0.9\n"));
  EXPECT_TRUE(says("recipe      model.layers: 2 -> 1\n"));
  EXPECT_TRUE(says("only in A, f32 [96, 32]"));
  EXPECT_EQ(run({"diff", "runs/tiny@3", "other/tiny", "--json"}), int(ExitCode::differs));
  for (const auto& change : json()["recipe"])
    if (change["key"] == "optim.beta2") {
      EXPECT_EQ(change["change"], "0.99 -> 0.9");
    }
  EXPECT_EQ(run({"diff", "runs/tiny", "data.h5"}), int(ExitCode::data));
  EXPECT_TRUE(says("data.h5: not an mxtape checkpoint"));
}

}  // namespace
}  // namespace mxtape::test
