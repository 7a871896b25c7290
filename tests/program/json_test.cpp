// What --json prints: one document that programs read (docs/json.md).
#include <array>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "data/npy.h"
#include "formats/text/peer_names.h"
#include "recipes/shipped.h"
#include "recipes/text/precision_table.h"
#include "tests/program/program_fixture.h"

namespace mxtape::test {
namespace {

using Json = nlohmann::json;

class JsonTest : public ProgramTest {
 protected:
  /// Runs with --json and reads standard output, which holds one document, or, after an error, nothing.
  Json json_of(std::vector<std::string> arguments, int code = 0) {
    std::string line = "cd '" + folder_.path().string() + "' && '" MXTAPE_PROGRAM "'";
    for (const auto& argument : arguments) line += " '" + argument + "'";
    line += " --json 2>messages.txt";
    std::string text;
    std::array<char, 4096> buffer;
    FILE* pipe = ::popen(line.c_str(), "r");
    while (const auto n = std::fread(buffer.data(), 1, buffer.size(), pipe)) text.append(buffer.data(), n);
    const int status = ::pclose(pipe);
    EXPECT_EQ(WIFEXITED(status) ? WEXITSTATUS(status) : -1, code) << messages();
    return text.empty() ? Json() : Json::parse(text);
  }
  std::string messages() const {
    std::stringstream text;
    text << std::ifstream(folder_ / "messages.txt").rdbuf();
    return text.str();
  }
};

/// Every null has a reason beside it.
void expect_reasons(const Json& json) {
  for (const auto& [name, value] : json.items()) {
    if (value.is_structured()) expect_reasons(value);
    if (value.is_null()) {
      EXPECT_TRUE(json.contains(name + "_reason")) << name << " in " << json;
    }
  }
}

/// So many bytes are a whole number. Returns how many numbers of bytes there are.
int expect_whole_bytes(const Json& json) {
  int count = 0;
  for (const auto& [name, value] : json.items()) {
    if (value.is_structured()) count += expect_whole_bytes(value);
    if (!value.is_number() || !name.ends_with("bytes")) continue;
    EXPECT_TRUE(value.is_number_integer()) << name << ": " << value;
    ++count;
  }
  return count;
}

TEST_F(JsonTest, NumbersOfBytesAreWhole) {
  EXPECT_GE(expect_whole_bytes(json_of({"check", "tiny.toml"})), 6);
  write_atomically(folder_ / "ask.toml",
                   std::string("base = \"tiny.toml\"\nbaseline = \"a\"\nseeds = 1\ntolerance = 0.5\n"
                               "[[arm]]\nname = \"a\"\n[[arm]]\nname = \"b\"\nset.optim.beta2 = 0.9\n"));
  EXPECT_GE(expect_whole_bytes(json_of({"sweep", "ask.toml", "--check"})), 3);
}

TEST_F(JsonTest, CheckGivesKeysPrecisionNumbersAndWhetherItIsReady) {
  const Json json = json_of({"check", "tiny.toml", "--optim.beta2=0.9", "--train.steps=7"});
  expect_reasons(json);
  EXPECT_EQ(json["recipe"], "tiny.toml");
  EXPECT_EQ(json["keys"]["train.steps"]["value"], 7);
  EXPECT_EQ(json["keys"]["train.steps"]["origin"], "command line");
  EXPECT_EQ(json["keys"]["optim.beta2"]["value"], 0.9) << "the decimal, not 0.899999976";
  EXPECT_EQ(json["keys"]["model.bias"]["value"], true);
  EXPECT_EQ(json["numbers"]["train_tokens"], tiny_data().train.count());
  const std::int64_t parameters =
      parameter_count(with_vocabulary(tiny_recipe(7), tiny_data().tokenizer).model);
  EXPECT_EQ(json["numbers"]["parameters"], parameters);
  EXPECT_GT(json["numbers"]["memory_needed_bytes"], 4 * parameters);
  EXPECT_TRUE(json["ready"]);
  EXPECT_EQ(json["problems"], Json::array());
  EXPECT_EQ(json["command"], MXTAPE_PROGRAM " train tiny.toml --optim.beta2=0.9 --train.steps=7");
  ASSERT_EQ(json["precision"].size(), 1u);
  const Json& layers = json["precision"][0]["layers"];
  ASSERT_EQ(layers.size(), 2 * 4 + 1 + 2u) << "linear layers of two blocks, the head, attention";
  const Json& first = layers[0];
  EXPECT_EQ(first["layer"], "blocks.0.attn.out");
  EXPECT_EQ(first["slots"]["fprop.w"], "mxfp4 round=stochastic");
  EXPECT_EQ(first["slots"]["fprop.x"], "mxfp4");
  EXPECT_EQ(first["gemms"]["fprop"], gemm_path(mxfp4, mxfp4, GemmKernels::library));
}

TEST_F(JsonTest, CheckListsItsProblemsAndEndsWithTheCodeOfTheFirst) {
  const Json json =
      json_of({"check", "tiny.toml", "--data.file=gone.h5", "--train.out=tiny.toml"}, int(ExitCode::data));
  expect_reasons(json);
  EXPECT_FALSE(json["ready"]);
  ASSERT_EQ(json["problems"].size(), 2u);
  EXPECT_EQ(json["problems"][0]["code"], int(ExitCode::data));
  EXPECT_EQ(json["problems"][0]["kind"], "data");
  EXPECT_EQ(json["problems"][1]["kind"], "resource");
  for (const auto& problem : json["problems"])
    EXPECT_NE(messages().find(problem["message"].get<std::string>()), std::string::npos);
}

TEST_F(JsonTest, EvalGivesTheLossesThatTheTableRounds) {
  ASSERT_EQ(run({"train", "tiny.toml"}), 0) << output_;
  const Json json = json_of({"eval", "runs/tiny", "--precision", "mxfp4", "--precision", "recipe"});
  expect_reasons(json);
  EXPECT_EQ(json["step"], 6);
  EXPECT_EQ(json["windows"], 8);
  EXPECT_TRUE(json["floor"].is_null());
  ASSERT_EQ(json["results"].size(), 3u);
  EXPECT_EQ(json["results"][0]["precision"], "f32");
  EXPECT_EQ(json["results"][1]["bits_per_element"], 4.25);
  EXPECT_TRUE(json["results"][2]["bits_per_element"].is_null());
  const double f32 = json["results"][0]["loss"], mxfp4 = json["results"][1]["loss"];
  EXPECT_EQ(json["results"][1]["above_f32"], mxfp4 - f32);
  EXPECT_EQ(json["results"][1]["perplexity"], std::exp(mxfp4));
  ASSERT_EQ(run({"eval", "runs/tiny", "--precision", "mxfp4"}), 0);
  EXPECT_TRUE(says(fmt::format("{:9.4f}", mxfp4)));
  EXPECT_NE(fmt::format("{}", mxfp4), fmt::format("{:.4f}", mxfp4)) << "all its bits";
}

TEST_F(JsonTest, EvalOfATextSaysHowLongTheWindowsAreThatItUsed) {
  ASSERT_EQ(run({"train", "tiny.toml"}), 0) << output_;
  for (const auto& [text, window] : {std::pair("the cat", 6), {"the cat sees a small dog", 16}}) {
    write_atomically(folder_ / "text.txt", std::string(text));
    const std::vector<std::string> words{"eval", "runs/tiny", "--text", "text.txt", "--precision", "f32"};
    EXPECT_EQ(json_of(words)["window"], window) << "the context has 16";
    ASSERT_EQ(run(words), 0) << output_;
    EXPECT_TRUE(says(fmt::format(" of {} tokens, one every 16, without BOS", window)));
  }
}

TEST_F(JsonTest, CompareGivesEveryStatisticAndAReasonForWhatIsNoNumber) {
  write_npy(folder_ / "w.npy", std::vector<std::int64_t>{1, 4}, std::vector<float>{3, 0.25f, -1, 5});
  const Json json = json_of({"compare", "w.npy", "--format", "mxfp4", "--format", "fp32"});
  expect_reasons(json);
  EXPECT_EQ(json["tensor"]["cols"], 4);
  EXPECT_EQ(json["tensor"]["blocks_spread_over_100"], 0);
  const Json& fp4 = json["formats"][0];
  EXPECT_EQ(fp4["mse"], (0.0625 + 1) / 4);
  EXPECT_EQ(fp4["mae"], (0.25 + 1) / 4);
  EXPECT_EQ(fp4["bits_per_block"], 136);
  EXPECT_EQ(fp4["saved_against_bf16"], 1 - 4.25 / 16);
  EXPECT_EQ(fp4["scales"], Json::parse(R"([{"exponent": 0, "blocks": 1}])"));
  EXPECT_EQ(fp4["values"].size(), 15u);
  EXPECT_EQ(fp4["largest"], 6);
  EXPECT_EQ(fp4["blocks"], 1);
  EXPECT_EQ(fp4["bytes"], 2 + 1);
  const Json& f32 = json["formats"][1];
  EXPECT_TRUE(f32["values"].is_null());
  EXPECT_EQ(f32["format"], "fp32");
  EXPECT_EQ(f32["meaning"], "f32");
  EXPECT_TRUE(f32["sqnr_db"].is_null());
  EXPECT_EQ(f32["sqnr_db_reason"], "infinite: no element changed");
  write_npy(folder_ / "w.npy", std::vector<std::int64_t>{1, 2}, std::vector<float>{1e6f, 1e6f});
  const Json none = json_of({"compare", "w.npy", "--format", "f16"})["formats"][0];
  EXPECT_TRUE(none["mse"].is_null());
  EXPECT_EQ(none["mse_reason"], "no element is finite before and after");
  EXPECT_EQ(none["not_finite"], 2);
}

TEST_F(JsonTest, FormatsGivesElementsPresetsAndPeersNames) {
  const Json json = json_of({"formats"});
  expect_reasons(json);
  EXPECT_EQ(json["elements"].size(), element_formats.size());
  EXPECT_EQ(json["formats"].size(), presets.size() + 3);
  for (const auto& row : json["elements"])
    if (row["name"] == "f32") {
      EXPECT_EQ(row["largest"], double(f32.max_finite())) << "all its bits";
    }
  for (const auto& row : json["peer_names"])
    EXPECT_EQ(parse_quantizer(row["name"].get<std::string>()),
              parse_quantizer(row["format"].get<std::string>()));
  EXPECT_FALSE(json["peer_names"].empty());
}

TEST_F(JsonTest, RecipesListsThemShowsOneAndDescribesEveryKey) {
  Json json = json_of({"recipes"});
  ASSERT_EQ(json["recipes"].size(), shipped_recipes().size());
  for (std::size_t i = 0; i < shipped_recipes().size(); ++i)
    EXPECT_EQ(json["recipes"][i]["name"], shipped_recipes()[i].name);
  EXPECT_EQ(json_of({"recipes", "demo-mxfp4"})["kind"], "run");
  EXPECT_EQ(json_of({"recipes", "precision/mxfp4"})["kind"], "precision");
  json = json_of({"recipes", "--reference"});
  for (const auto& row : json["keys"])
    if (row["key"] == "optim.beta1") {
      EXPECT_EQ(row["accepts"], "a number in [0, 1)");
    }
}

TEST_F(JsonTest, AnErrorLeavesStandardOutputEmpty) {
  EXPECT_EQ(json_of({"recipes", "nothing-like-it"}, int(ExitCode::usage)), Json());
  EXPECT_EQ(json_of({"compare", "gone.npy"}, int(ExitCode::data)), Json());
  EXPECT_EQ(json_of({"check", "gone.toml"}, int(ExitCode::usage)), Json());
  EXPECT_NE(messages().find("gone.toml"), std::string::npos);
}

}  // namespace
}  // namespace mxtape::test
