// mxtape post-training, and the precisions of eval that it shares.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "tests/program/program_fixture.h"
#include "train/checkpoint.h"

namespace mxtape::test {
namespace {

using Json = nlohmann::json;

class PostTraining : public ProgramTest {
 protected:
  PostTraining() { EXPECT_EQ(run({"train", "tiny.toml"}), 0) << output_; }

  Json json_of(std::vector<std::string> arguments) {
    arguments.emplace_back("--json");
    EXPECT_EQ(run(std::move(arguments)), 0) << output_;
    return Json::parse(output_.substr(std::min(output_.find("{\n"), output_.size())));
  }
  /// The loss in one precision, in all its digits.
  Json eval(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), "eval");
    return json_of(std::move(arguments))["results"].back()["loss"];
  }
  static Json cell(const Json& table, const std::string& precision, const std::string& setting) {
    for (const Json& result : table["results"])
      if (result["precision"] == precision && result["setting"] == setting) return result;
    return {};
  }
  void refused(const std::vector<std::string>& arguments, const std::string& text,
               ExitCode code = ExitCode::usage) {
    EXPECT_EQ(run(arguments), int(code)) << output_;
    EXPECT_TRUE(says(text));
  }
};

TEST_F(PostTraining, MeasuresEachSettingAndKeepsModelsThatOtherCommandsTake) {
  const Json table =
      json_of({"post-training", "runs/tiny",  "--precision", "mxfp4",         "--precision",
               "nvfp4",         "--setting",  "weights",     "--setting",     "weights-diffused",
               "--setting",     "cast",       "--setting",   "diffused",      "--setting",
               "finetuned",     "--finetune", "4",           "--calibration", "8",
               "--seed",        "5",          "--out",       "table",         "--keep"});
  EXPECT_EQ(table["results"].size(), 2u + 2 * 5);
  EXPECT_EQ(table["calibration"], Json({{"split", "train"}, {"windows", 8}, {"seed", 5}}));
  EXPECT_EQ(table["cast_directly"], Json::array({"head"}));
  EXPECT_EQ(table["f32"], eval({"runs/tiny", "--precision", "f32"}));
  for (const std::string format : {"mxfp4", "nvfp4"}) {
    SCOPED_TRACE(format);
    EXPECT_EQ(cell(table, format, "weights")["loss"],
              eval({"runs/tiny", "--precision", format, "--weights-only"}));
    EXPECT_EQ(cell(table, format, "cast")["loss"], eval({"runs/tiny", "--precision", format}));
    EXPECT_EQ(cell(table, format, "cast")["bits_per_weight"], format == "mxfp4" ? 4.25 : 4.5);
    for (const std::string setting : {"weights-diffused", "diffused", "finetuned"}) {
      SCOPED_TRACE(setting);
      const Json result = cell(table, format, setting);
      const std::string kept = result["kept"];
      EXPECT_EQ(kept, "table/" + format + "-" + setting + ".h5");
      EXPECT_EQ(result["loss"], eval({kept, "--precision", "recipe"}));
      EXPECT_EQ(run({"sample", kept, "--prompt", "the ", "--tokens", "5"}), 0) << output_;
      ASSERT_EQ(run({"export", kept, "--packed", "-o", "x.h5", "--force"}), 0) << output_;
      EXPECT_EQ(result["loss"], eval({"x.h5"}));
      EXPECT_EQ(run({"verify", kept}), 0) << output_;
    }
    EXPECT_NE(cell(table, format, "diffused")["loss"], cell(table, format, "cast")["loss"]);
    for (const Json& layer : cell(table, format, "diffused")["layers"]) EXPECT_EQ(layer["moved"], 0);
  }
  ASSERT_EQ(run({"info", "table/mxfp4-diffused.h5"}), 0);
  EXPECT_TRUE(
      says("weights: error diffusion on 8 windows of the training split of data.h5, seed 5, damping 0.01"));
  EXPECT_EQ(
      run({"train", "precision/mxfp6", "--from", "table/mxfp4-diffused.h5", "--train.steps=8", "--name=on"}),
      0)
      << output_;
}

TEST_F(PostTraining, TakesAnImportedModelWithATextThatItsTokenizerPrepared) {
  ASSERT_EQ(run({"export", "runs/tiny", "--to", "hf", "-o", "hf"}), 0) << output_;
  ASSERT_EQ(run({"import", "hf"}), 0) << output_;
  write_atomically(folder_ / "text.txt", tiny_text());
  ASSERT_EQ(run({"prepare", "text.txt", "--tokenizer", "models/hf", "--out", "text.h5"}), 0) << output_;
  const std::vector<std::string> on_text{"--data", "text.h5", "--windows", "8"};
  const auto with = [&](std::vector<std::string> words, const std::vector<std::string>& more) {
    words.insert(words.end(), more.begin(), more.end());
    words.insert(words.end(), on_text.begin(), on_text.end());
    return words;
  };
  const std::vector<std::string> settings{"--setting", "weights", "--setting", "cast"};
  const Json imported = json_of(with({"post-training", "models/hf"}, settings)),
             trained = json_of(with({"post-training", "runs/tiny"}, settings));
  EXPECT_EQ(imported["step"], 0);
  EXPECT_EQ(imported["results"].size(), 1u + 6 * 2) << "every format, weights alone and cast";
  for (const Json& result : imported["results"]) {
    const std::string precision = result["precision"], setting = result["setting"];
    SCOPED_TRACE(precision + " " + setting);
    // The same weights; a batch of validation has another size, so sums are rounded otherwise.
    EXPECT_NEAR(result["loss"].get<double>(), cell(trained, precision, setting)["loss"].get<double>(), 1e-5);
    if (setting != "weights") continue;
    EXPECT_EQ(result["loss"], eval(with({"models/hf"}, {"--precision", precision, "--weights-only"})));
  }
  refused({"post-training", "models/hf"}, "was imported, so it has no data of its own: name a token file",
          ExitCode::usage);
}

TEST_F(PostTraining, FinetunesByTrainingOnInThatFormat) {
  const Json table = json_of({"post-training", "runs/tiny", "--precision", "mxfp4", "--setting", "finetuned",
                              "--finetune", "4", "--learning-rate", "0.002", "--out", "table", "--keep"});
  // The same as a branch, written by hand.
  write_atomically(folder_ / "by_hand.toml", std::string(R"(
name = "by_hand"
[train]
steps = 10
[optim]
learning_rate = 0.002
[schedule]
kind = "linear"
warmup_steps = 0
final_fraction = 0
start = 6
[[precision.rules]]
slots = ["fprop.w", "fprop.x"]
format = "mxfp4"
)"));
  ASSERT_EQ(
      run({"train", "by_hand.toml", "--from", "runs/tiny", "--fresh", "precision", "--train.save_every=10"}),
      0)
      << output_;
  EXPECT_EQ(cell(table, "mxfp4", "finetuned")["loss"], eval({"runs/by_hand", "--precision", "mxfp4"}));
  EXPECT_NE(cell(table, "mxfp4", "finetuned")["loss"], eval({"runs/tiny", "--precision", "mxfp4"}));
  EXPECT_NE(cell(table, "f32", "finetuned")["loss"], cell(table, "mxfp4", "finetuned")["loss"]);
  EXPECT_EQ(CheckpointFile(folder_ / "table/mxfp4-finetuned.h5").header().step, 10);
}

TEST_F(PostTraining, CalibratesOnTheTrainingSplitAlone) {
  TokenFile other = test::tiny_data();
  const auto validation = other.tokenizer.encode(test::tiny_text().substr(500, 2000));
  other.validation = Split::from_tokens(validation, other.tokenizer.size());
  TokenFile(other).write(folder_ / "validation.h5");
  other.train = Split::from_tokens(validation, other.tokenizer.size());
  TokenFile(other).write(folder_ / "both.h5");
  const auto table = [&](const std::string& data) {
    return json_of(
        {"post-training", "runs/tiny", "--precision", "mxfp4", "--setting", "diffused", "--data", data});
  };
  const Json own = table("data.h5"), validation_differs = table("validation.h5"),
             both_differ = table("both.h5");
  EXPECT_NE(cell(own, "mxfp4", "diffused")["loss"], cell(validation_differs, "mxfp4", "diffused")["loss"]);
  EXPECT_EQ(cell(own, "mxfp4", "diffused")["layers"],
            cell(validation_differs, "mxfp4", "diffused")["layers"]);
  EXPECT_NE(cell(own, "mxfp4", "diffused")["layers"], cell(both_differ, "mxfp4", "diffused")["layers"]);
}

TEST_F(PostTraining, MeasuresNothingTwiceInOneFolder) {
  const std::vector<std::string> first{"post-training", "runs/tiny", "--precision", "mxfp4",
                                       "--setting",     "cast",      "--out",       "table"};
  const Json before = json_of(first);
  EXPECT_EQ(json_of(first), before) << "the times it took, too";
  auto more = first;
  more.insert(more.end(), {"--setting", "diffused", "--precision", "mxint8"});
  const Json after = json_of(more);
  EXPECT_EQ(cell(after, "mxfp4", "cast"), cell(before, "mxfp4", "cast"));
  EXPECT_EQ(after["results"].size(), 1u + 2 * 2);
  EXPECT_EQ(Json::parse(read_whole_text(folder_ / "table/results.json")), after);
  EXPECT_EQ(json_of(first), before);
  EXPECT_EQ(Json::parse(read_whole_text(folder_ / "table/results.json"))["results"].size(), 5u);
  more.insert(more.end(), {"--calibration", "9"});
  refused(more, "calibration: {\"split\":\"train\",\"windows\":32,\"seed\":1} -> ");
  refused({"post-training", "runs/tiny", "--out", "runs"}, "runs: this folder holds other files");
}

TEST_F(PostTraining, ResultsOfARulesFileAreNotThoseOfItsLaterContent) {
  const auto rules = [&](const std::string& name, const std::string& format) {
    write_atomically(folder_ / name,
                     "[[precision.rules]]\nslots = [\"fprop.w\"]\nformat = \"" + format + "\"\n");
  };
  const std::vector<std::string> command{"post-training", "runs/tiny", "--precision", "rules.toml",
                                         "--setting",     "cast",      "--out",       "table"};
  rules("rules.toml", "mxfp4");
  const Json before = json_of(command);
  rules("rules.toml", "mxfp8");
  refused(command, "--precision 'rules.toml' meant something else when it was measured:");
  EXPECT_TRUE(says("then: precision.rules 1: nothing -> rule:"));
  EXPECT_EQ(Json::parse(read_whole_text(folder_ / "table/results.json")), before);
  rules("rules.toml", "mxfp4 block=32");
  EXPECT_EQ(json_of(command), before) << "the same precision, written otherwise";
}

TEST_F(PostTraining, AModelThatIsGoneIsMadeAgainAndAFolderMayMove) {
  const auto command = [](const std::string& folder) {
    return std::vector<std::string>{"post-training", "runs/tiny", "--precision", "mxfp4", "--setting",
                                    "diffused",      "--out",     folder,        "--keep"};
  };
  const Json before = json_of(command("table"));
  const auto model = read_whole(folder_ / "table/mxfp4-diffused.h5");
  write_atomically(folder_ / "table/mxfp4-diffused.h5", std::string_view("damaged"));
  json_of(command("table"));
  EXPECT_EQ(read_whole(folder_ / "table/mxfp4-diffused.h5"), model);
  std::filesystem::remove(folder_ / "table/mxfp4-diffused.h5");
  std::filesystem::rename(folder_ / "table", folder_ / "moved");
  const Json again = json_of(command("moved"));
  EXPECT_EQ(cell(again, "mxfp4", "diffused")["loss"], cell(before, "mxfp4", "diffused")["loss"]);
  EXPECT_EQ(cell(again, "mxfp4", "diffused")["kept"], "moved/mxfp4-diffused.h5");
  EXPECT_TRUE(std::filesystem::exists(folder_ / "moved/mxfp4-diffused.h5"));
}

TEST_F(PostTraining, AModelIsNotReplacedByOneOfAnotherPrecision) {
  const auto command = [](const std::string& precision) {
    return std::vector<std::string>{"post-training", "runs/tiny", "--precision", precision, "--setting",
                                    "diffused",      "--out",     "table",       "--keep"};
  };
  const Json before = json_of(command("int4 block=32 scale=e8m0"));
  const std::string kept = cell(before, "int4 block=32 scale=e8m0", "diffused")["kept"];
  const auto bytes = read_whole(folder_ / kept);
  refused(command("int4  block=32 scale=e8m0"), "has results of --precision 'int4 block=32 scale=e8m0'");
  EXPECT_EQ(read_whole(folder_ / kept), bytes);
}

TEST_F(PostTraining, NamesWhatItCannotDo) {
  refused({"post-training", "runs/tiny", "--keep"}, "name it with --out DIR");
  refused({"post-training", "runs/tiny", "--precision", "mxfp5"}, "mxfp5");
  refused({"post-training", "runs/tiny", "--precision", "mxfp4", "--precision", "mxfp4"}, "the same twice");
  refused({"post-training", "runs/tiny", "--precision", "nvfp4 outer=axis"},
          "precision 'nvfp4 outer=axis', setting diffused: layer 'blocks.0.attn.qkv'");
  refused({"post-training", "runs/tiny", "--precision", "precision/mxfp4", "--attention"},
          "--attention: it belongs to a --precision that is a single format");
  refused({"post-training", "runs/tiny", "--setting", "finetuned", "--finetune", "0"}, "no setting is left");
  for (const char* option : {"--finetune", "--learning-rate", "--calibration", "--damping", "--seed"})
    refused({"post-training", "runs/tiny", "--setting", "cast", option, "1"},
            fmt::format("{} has no effect on what is measured", option));
  refused({"post-training", "runs/tiny", "--finetune", "0", "--learning-rate", "1"},
          "--learning-rate has no effect on what is measured");
  refused({"post-training", "runs/tiny", "--setting", "cast", "--setting", "cast"}, "want each once");
  refused({"post-training", "runs/tiny", "--learning-rate", "1e-50"}, "'1e-50', which is 0 as an f32");
  refused({"post-training", "runs/tiny", "--precision", "mxfp4", "--calibration", "1", "--damping", "0"},
          "the 16 rows of calibration do not tell its 32 inputs apart");
  EXPECT_TRUE(says("layer 'blocks.0.attn.qkv'"));
  write_atomically(folder_ / "short.txt", std::string("the cat sees a small dog. a dog."));
  for (const auto& [share, message] :
       {std::pair("0.9", "mxtape: short.h5: the training split has 3 tokens, a window of 16 and its targets"),
        {"0.1", "mxtape: short.h5: the validation split has 4 tokens, a window of 16 and its targets"}}) {
    ASSERT_EQ(run({"prepare", "short.txt", "--tokenizer-of", "runs/tiny", "--out", "short.h5", "--validation",
                   share, "--force"}),
              0)
        << output_;
    refused({"post-training", "runs/tiny", "--data", "short.h5"}, message, ExitCode::data);
  }
  refused({"eval", "runs/tiny", "--data", "short.h5"}, "mxtape: short.h5: the validation split has 4 tokens",
          ExitCode::data);
  ASSERT_EQ(run({"export", "runs/tiny", "--packed", "-o", "x.h5"}), 0) << output_;
  refused({"post-training", "x.h5"}, "a packed model has no f32 weights to start from");
}

TEST_F(PostTraining, PrintsATableWithACellForEachFormatAndSetting) {
  ASSERT_EQ(run({"post-training", "runs/tiny", "--precision", "mxfp4", "--finetune", "2"}), 0) << output_;
  EXPECT_TRUE(says("calibration  32 windows of its training split, seed 1, damping 0.01; "));
  EXPECT_TRUE(says("head: tied to the embedding, so cast directly there too"));
  EXPECT_TRUE(
      says("finetuning   2 steps of 12 sequences of its training split, learning rate 0.001 falling to 0"));
  EXPECT_TRUE(says("[6/6] mxfp4 finetuned | loss "));
  EXPECT_TRUE(says(
      "precision    bits            weights               cast           diffused          finetuned\n"));
  EXPECT_TRUE(says("\nmxfp4        4.25  "));
  EXPECT_TRUE(says("worst layer, diffused\nmxfp4      diffused "));
}

TEST_F(PostTraining, EvalTakesAFormatForEachOperand) {
  write_atomically(folder_ / "operands.toml", std::string(R"(
[[precision.rules]]
slots = ["fprop.w"]
format = "mxfp4"
[[precision.rules]]
slots = ["fprop.x"]
format = "mxfp8_e4m3 rule=even"
[[precision.rules]]
slots = ["qk.*", "pv.*"]
format = "mxfp6_e2m3"
[[precision.rules]]
layers = "head"
slots = ["fprop.*"]
format = "bf16"
)"));
  const Json by_rules = eval({"runs/tiny", "--precision", "operands.toml"});
  const std::string text = "head=bf16, weights=mxfp4, activations=mxfp8_e4m3 rule=even, attention=mxfp6_e2m3";
  EXPECT_EQ(eval({"runs/tiny", "--precision", text}), by_rules);
  EXPECT_NE(eval({"runs/tiny", "--precision", "weights=mxfp4, activations=mxfp8_e4m3 rule=even"}), by_rules);
  EXPECT_EQ(eval({"runs/tiny", "--precision", "weights=mxfp4"}),
            eval({"runs/tiny", "--precision", "mxfp4", "--weights-only"}));
  EXPECT_EQ(eval({"runs/tiny", "--precision", "weights=mxfp4,activations=mxfp4,attention=mxfp4"}),
            eval({"runs/tiny", "--precision", "mxfp4", "--attention"}));
  EXPECT_NE(eval({"runs/tiny", "--precision", "mxfp4", "--attention"}),
            eval({"runs/tiny", "--precision", "mxfp4"}));
  refused({"eval", "runs/tiny", "--precision", "weihgts=mxfp4"},
          "no operand 'weihgts'; did you mean 'weights'?");
  refused({"eval", "runs/tiny", "--precision", "weights=mxfp4, head"},
          "'head' has no format; want head=FORMAT");
  refused({"eval", "runs/tiny", "--precision", "weights=mxfp4, weights=mxfp6"},
          "'weights' twice; want it once");
  refused({"eval", "runs/tiny", "--precision", "mxfp4", "--attention", "--weights-only"}, "want one of them");
}

}  // namespace
}  // namespace mxtape::test
