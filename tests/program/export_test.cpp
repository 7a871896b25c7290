// mxtape export --packed, and the commands that take what it writes.
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "data/hdf5/seal.h"
#include "program/models/cast.h"
#include "program/models/trained_model.h"
#include "tests/program/program_fixture.h"
#include "train/saved/packed_model.h"

namespace mxtape::test {
namespace {

using Json = nlohmann::json;

class Export : public ProgramTest {
 protected:
  Export() { EXPECT_EQ(run({"train", "tiny.toml", "--train.save_every=3"}), 0) << output_; }

  Json json_of(std::vector<std::string> arguments) {
    arguments.emplace_back("--json");
    EXPECT_EQ(run(std::move(arguments)), 0) << output_;
    return Json::parse(output_);
  }
  /// The loss in one precision, in all its digits.
  Json loss_of(const std::vector<std::string>& arguments) {
    return json_of(arguments)["results"].back()["loss"];
  }
};

TEST_F(Export, EvalAndSampleGiveWhatTheyGiveFromTheCheckpoint) {
  ASSERT_EQ(run({"export", "runs/tiny", "--packed"}), 0) << output_;
  const std::string packed = "runs/tiny/packed_step_00000006.h5";
  EXPECT_TRUE(says("blocks.0.attn.qkv    mxfp4 round=stochastic"));
  EXPECT_TRUE(says("file    " + packed));
  EXPECT_EQ(loss_of({"eval", packed}), loss_of({"eval", "runs/tiny", "--precision", "recipe"}));
  const auto text_of = [&](const std::string& model) {
    EXPECT_EQ(run({"sample", model, "--prompt", "the ", "--tokens", "40", "--temperature", "0.8"}), 0);
    return without_times(output_);
  };
  const std::string text = text_of("runs/tiny");
  EXPECT_GT(text.size(), 40u);
  EXPECT_EQ(text_of(packed), text);

  for (const std::string precision : {"nvfp4", "mxint8", "precision/mxfp6"})
    for (const bool weights_only : {false, true}) {
      SCOPED_TRACE(precision);
      std::vector<std::string> words{"--precision", precision};
      if (weights_only) words.emplace_back("--weights-only");
      std::vector<std::string> exporting{"export", "runs/tiny@3", "--packed", "-o", "x.h5", "--force"};
      exporting.insert(exporting.end(), words.begin(), words.end());
      ASSERT_EQ(run(exporting), 0) << output_;
      std::vector<std::string> evaluating{"eval", "runs/tiny@3"};
      evaluating.insert(evaluating.end(), words.begin(), words.end());
      EXPECT_EQ(loss_of({"eval", "x.h5"}), loss_of(evaluating));
    }
  EXPECT_NE(loss_of({"eval", "runs/tiny", "--precision", "nvfp4", "--weights-only"}),
            loss_of({"eval", "runs/tiny", "--precision", "nvfp4"}));
  EXPECT_EQ(run({"eval", "x.h5"}), 0);
  EXPECT_TRUE(says("packed      x.h5, step 3"));
  EXPECT_FALSE(says("- f32")) << "there is none to compare with";
}

TEST_F(Export, EvalOfOneFormatSaysItsBitsAsOfTheCheckpoint) {
  const Json none;
  using Words = std::vector<std::string>;
  for (const auto& [words, bits] : {std::pair(Words{"nvfp4"}, Json(4.5)),
                                    {{"mxfp4", "--weights-only"}, 4.25},
                                    {{"mxfp8", "--attention"}, 8.25},
                                    {{"recipe", "--weights-only"}, none},
                                    {{"weights=mxfp4, activations=mxfp8"}, none}}) {
    Words exporting{"export", "runs/tiny", "--packed", "-o", "x.h5", "--force", "--precision"};
    exporting.insert(exporting.end(), words.begin(), words.end());
    ASSERT_EQ(run(exporting), 0) << output_;
    EXPECT_EQ(json_of({"eval", "x.h5"})["results"][0]["bits_per_element"], bits) << words[0];
  }
}

TEST_F(Export, CountsTheBytesOfEveryTensor) {
  const Json json = json_of({"export", "runs/tiny", "--packed", "--precision", "mxfp4", "-o", "x.h5"});
  std::int64_t bytes = 0;
  for (const auto& row : json["tensors"]) {
    bytes += row["bytes"].get<std::int64_t>();
    if (row["name"] == "blocks.1.mlp.up") {
      EXPECT_EQ(row["bytes"], 128 * 32 / 2 + 128) << "4 bits each, and a byte for each 32";
      EXPECT_EQ(row["bits_per_number"], 4.25);
      EXPECT_EQ(row["format"], "mxfp4");
    }
    if (row["name"] == "tokens.weight") {
      EXPECT_EQ(row["format"], "f32") << "the embedding";
    }
  }
  EXPECT_EQ(json["tensor_bytes"], bytes);
  EXPECT_GT(json["bytes"], bytes);
  EXPECT_EQ(json["f32_bytes"], 4 * json_of({"info", "runs/tiny"})["parameters"].get<std::int64_t>());
  EXPECT_DOUBLE_EQ(json["ratio"], json["f32_bytes"].get<double>() / double(bytes));
  const Json info = json_of({"info", "x.h5"});
  EXPECT_EQ(info["tensors"], json["tensors"]);
  EXPECT_EQ(info["packed_precision"], "mxfp4");
  EXPECT_EQ(info["source_hash"], verify_seal(checkpoint(6)));
  EXPECT_EQ(run({"info", "x.h5"}), 0);
  EXPECT_TRUE(says("precision   mxfp4\n"));
  EXPECT_TRUE(says("head "));
}

TEST_F(Export, EqualExportsAreEqualFilesAndDiffNamesWhatDiffers) {
  ASSERT_EQ(run({"export", "runs/tiny", "--packed", "-o", "a.h5"}), 0);
  ASSERT_EQ(run({"export", "runs/tiny", "--packed", "-o", "b.h5"}), 0);
  EXPECT_EQ(read_whole(folder_ / "a.h5"), read_whole(folder_ / "b.h5"));
  EXPECT_EQ(run({"diff", "a.h5", "b.h5"}), 0) << output_;
  ASSERT_EQ(run({"export", "runs/tiny@3", "--packed", "-o", "c.h5"}), 0);
  EXPECT_EQ(run({"diff", "a.h5", "c.h5"}), int(ExitCode::differs));
  EXPECT_TRUE(says("step        6 -> 3"));
  EXPECT_TRUE(says("packed/blocks.0.attn.qkv/codes"));
  EXPECT_EQ(run({"diff", "a.h5", "runs/tiny"}), int(ExitCode::usage));
  EXPECT_TRUE(says("a.h5 is a packed model, runs/tiny/checkpoints/step_00000006.h5 a checkpoint"));
}

TEST_F(Export, VerifySeesDamageAndFaultsUnderASoundSeal) {
  ASSERT_EQ(run({"export", "runs/tiny", "--packed", "--precision", "nvfp4", "-o", "x.h5"}), 0);
  EXPECT_EQ(run({"verify", "x.h5"}), 0) << output_;
  EXPECT_TRUE(says("ok      x.h5  packed model of step 6, "));
  const auto rewrite = [&](const std::string& changed, std::uint8_t code) {
    const Hdf5Reader old(folder_ / "x.h5");
    Hdf5Writer file(folder_ / "y.h5");
    for (const char* name :
         {"content", "recipe", "tokenizer", "data_hash", "written_by", "precision", "source_hash"})
      file.attribute("/", name, old.text_attribute("/", name));
    for (const char* name : {"layout_version", "step"})
      file.attribute("/", name, old.int_attribute("/", name));
    for (const auto& info : old.datasets()) {
      if (info.type == "u8") {
        auto bytes = old.read_u8(info.name);
        if (info.name == changed && code == 0) bytes.pop_back();
        if (info.name == changed && code != 0) bytes[3] = code;
        file.dataset(info.name, {std::int64_t(bytes.size())}, DType::u8, bytes.data());
      } else {
        file.dataset(info.name, shape_of(info.dims), DType::f32, old.read_f32(info.name).data());
      }
      if (!info.name.ends_with("/codes")) continue;
      const std::string group = info.name.substr(0, info.name.size() - 6);
      for (const char* name : {"weight", "format"})
        file.attribute(group, name, old.text_attribute(group, name));
      for (const char* name : {"rows", "cols"}) file.attribute(group, name, old.int_attribute(group, name));
    }
    file.commit(Seal::yes);
  };
  rewrite("", 1);
  EXPECT_EQ(run({"verify", "y.h5"}), 0) << output_;
  rewrite("packed/blocks.1.mlp.up/scales", 0x7f);  // E4M3's NaN
  EXPECT_EQ(run({"verify", "y.h5"}), int(ExitCode::data));
  EXPECT_TRUE(says("'blocks.1.mlp.up' holds 16 numbers that are not finite, the first at ["));
  rewrite("packed/blocks.1.mlp.up/codes", 0);
  EXPECT_EQ(run({"verify", "y.h5"}), int(ExitCode::data));
  EXPECT_EQ(run({"eval", "y.h5"}), int(ExitCode::data));
  EXPECT_TRUE(says("layer 'blocks.1.mlp.up': packed tensor: 2047 bytes of codes, want 2048"));
  auto bytes = read_whole(folder_ / "x.h5");
  bytes[bytes.size() / 2] ^= std::byte{1};
  write_atomically(folder_ / "x.h5", bytes);
  for (const char* command : {"verify", "eval", "sample", "info"}) {
    EXPECT_EQ(run({command, "x.h5"}), int(ExitCode::data)) << command;
    EXPECT_TRUE(says("x.h5: the content hash differs"));
  }
}

TEST_F(Export, OfAStepWithoutAveragesIsTakenWhereAnotherPhaseAsksThem) {
  write_atomically(folder_ / "ema.toml",
                   std::string_view("extends = 'tiny.toml'\n[precision]\nweight_average = 0.9\n"
                                    "[[precision.phases]]\nstart = 2\n[[precision.phases.rules]]\n"
                                    "layers = 'blocks.*'\nslots = ['fprop.w']\nformat = 'mxfp4 ema'\n"));
  ASSERT_EQ(run({"train", "ema.toml", "--train.steps=4", "--train.save_every=1", "--train.keep=4"}), 0)
      << output_;
  for (const char* step : {"1", "4"}) {
    const std::string packed = fmt::format("{}.h5", step);
    ASSERT_EQ(run({"export", fmt::format("runs/ema@{}", step), "--packed", "-o", packed}), 0) << output_;
    EXPECT_EQ(run({"verify", packed}), 0) << output_;
    EXPECT_EQ(run({"eval", packed}), 0) << output_;
  }
}

TEST_F(Export, RefusesWhatItCannotDo) {
  const auto refused = [&](std::vector<std::string> arguments, ExitCode code, const std::string& text) {
    EXPECT_EQ(run(std::move(arguments)), int(code)) << output_;
    EXPECT_TRUE(says(text));
  };
  refused({"export", "runs/tiny"}, ExitCode::usage, "export: say in which form, one of: --packed");
  refused({"export", "runs/tiny", "--packed", "--precision", "mxfp5"}, ExitCode::usage, "mxfp5");
  refused({"export", "runs/tiny", "--packed", "--precision", "precision/none"}, ExitCode::usage,
          "precision/none");
  refused({"export", "runs/tiny", "--packed", "--precision", "f32"}, ExitCode::usage,
          "nothing to pack: in precision 'f32' every layer multiplies by f32 weights");
  std::filesystem::create_directories(folder_ / "runs/empty");
  refused({"export", "runs/empty", "--packed"}, ExitCode::data, "runs/empty: no checkpoint that can be used");
  refused({"export", "runs/tiny", "--packed", "-o", checkpoint(6).string(), "--force"}, ExitCode::usage,
          "this command reads or writes that file already");
  EXPECT_EQ(run({"verify", "runs/tiny"}), 0) << "nothing was written over";

  ASSERT_EQ(run({"export", "runs/tiny", "--packed", "-o", "x.h5"}), 0);
  const auto before = read_whole(folder_ / "x.h5");
  refused({"export", "runs/tiny@3", "--packed", "-o", "x.h5"}, ExitCode::usage,
          "x.h5: is there already; --force writes over it");
  EXPECT_EQ(read_whole(folder_ / "x.h5"), before);
  ASSERT_EQ(run({"export", "runs/tiny@3", "--packed", "-o", "x.h5", "--force"}), 0);
  EXPECT_NE(read_whole(folder_ / "x.h5"), before);

  refused({"export", "x.h5", "--packed", "-o", "y.h5"}, ExitCode::data,
          "x.h5: a packed model: it holds no f32");
  refused({"train", "tiny.toml", "--from", "x.h5", "--name", "other"}, ExitCode::data,
          "x.h5: a packed model: it holds no f32");
  refused({"train", "tiny.toml", "--resume", "x.h5", "--name", "other"}, ExitCode::data,
          "x.h5: a packed model: it holds no f32");
  refused({"eval", "x.h5", "--precision", "mxfp8"}, ExitCode::usage,
          "x.h5: its weights are packed in precision 'recipe' and can be evaluated in no other");
}

TEST_F(Export, ForOtherProgramsRefusesItsOwnCheckpointAndOptionsOfAnotherForm) {
  const auto refused = [&](std::vector<std::string> arguments, const std::string& text) {
    arguments.insert(arguments.begin(), {"export", "runs/tiny", "--force"});
    EXPECT_EQ(run(std::move(arguments)), int(ExitCode::usage)) << output_;
    EXPECT_TRUE(says(text));
  };
  for (const char* form : {"safetensors", "llmc"}) {
    refused({"--to", form, "-o", checkpoint(6).string()}, "this command reads or writes that file already");
    EXPECT_EQ(run({"verify", "runs/tiny"}), 0) << output_;
    refused({"--to", form, "-o", "x.bin", "--shard-size", "1"}, "--shard-size: only with --to hf");
    refused({"--to", form, "-o", "x.bin", "--vocabulary", "20"}, "--vocabulary: only with --to hf");
    EXPECT_FALSE(std::filesystem::exists(folder_ / "x.bin"));
  }
  refused({"--to", "hf", "-o", "x", "--shard-size", "1e12"}, "--shard-size");
  ASSERT_EQ(run({"export", "runs/tiny", "--to", "hf", "-o", "x", "--shard-size", "2e-5"}), 0) << output_;
  EXPECT_TRUE(std::filesystem::exists(folder_ / "x/model.safetensors.index.json"));
}

TEST_F(Export, OnADiskThatIsFullLeavesWhatWasThere) {
  ASSERT_EQ(run({"export", "runs/tiny@3", "--packed", "-o", "x.h5"}), 0);
  const auto before = read_whole(folder_ / "x.h5");
  const auto names = folder_.names();
  // A limit of 8 KiB for a file stands for the disk's end: both are errors of write().
  const std::string line = "cd '" + folder_.path().string() +
                           "' && ulimit -f 8 && '" MXTAPE_PROGRAM
                           "' export runs/tiny --packed --force -o x.h5 >/dev/null 2>&1";
  const int status = std::system(line.c_str());
  EXPECT_EQ(WIFEXITED(status) ? WEXITSTATUS(status) : -1, int(ExitCode::resource));
  EXPECT_EQ(read_whole(folder_ / "x.h5"), before);
  EXPECT_EQ(folder_.names(), names) << "no temporary file stays";
}

TEST_F(Export, IsTheTokenizerOfAModel) {
  ASSERT_EQ(run({"export", "runs/tiny", "--packed", "-o", "x.h5"}), 0);
  write_atomically(folder_ / "more.txt", tiny_text());
  EXPECT_EQ(run({"prepare", "more.txt", "--tokenizer-of", "x.h5", "--out", "more.h5"}), 0) << output_;
  EXPECT_EQ(run({"eval", "x.h5", "--data", "more.h5"}), 0) << output_;
}

}  // namespace
}  // namespace mxtape::test
