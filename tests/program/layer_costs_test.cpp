#include "program/models/layer_costs.h"

#include <cmath>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "core/files/atomic_file.h"
#include "formats/quantize.h"
#include "tests/program/program_fixture.h"
#include "tests/support/closeness.h"

namespace mxtape::test {
namespace {

class LayerCostsTest : public ProgramTest {
 protected:
  void train(const std::vector<std::string>& more = {}) {
    std::vector<std::string> words{"train", "tiny.toml", "--train.steps=20"};
    words.insert(words.end(), more.begin(), more.end());
    ASSERT_EQ(run(words), 0) << output_;
  }
  nlohmann::json results(std::vector<std::string> words) {
    words.insert(words.begin(), {"eval", "runs/tiny", "--json"});
    EXPECT_EQ(run(words), 0) << output_;
    return nlohmann::json::parse(output_).at("results");
  }
  TrainedModel trained() const { return load_trained_model((folder_ / "runs/tiny").string()); }
  LayerCosts costs(const TrainedModel& model, const std::vector<Cast>& casts) const {
    return layer_costs(model, data_.validation, {.windows = 8, .batch_size = 3, .pass = model.next_pass()},
                       casts, stderr);
  }

  const TokenFile data_ = tiny_data();
};

TEST_F(LayerCostsTest, ALayerCostsWhatARuleFileForItAloneCosts) {
  train();
  const auto by_layer =
      results({"--by", "layer", "--precision", "weights=mxfp4, activations=mxfp6, attention=mxfp4"});
  ASSERT_EQ(by_layer.size(), 2u);
  EXPECT_EQ(by_layer[1]["loss"],
            results({"--precision", "weights=mxfp4, activations=mxfp6, attention=mxfp4"})[1]["loss"]);
  std::size_t linear = 0;
  double sum = 0;
  for (const auto& layer : by_layer[1]["layers"]) {
    const std::string name = layer["layer"];
    const auto rule = [&](const char* slots, const char* format) {
      return fmt::format("[[precision.rules]]\nlayers = \"{}\"\nslots = [{}]\nformat = \"{}\"\n", name, slots,
                         format);
    };
    const bool attends = name.ends_with("attn");
    linear += !attends;
    write_atomically(folder_ / "one.toml",
                     attends ? rule(R"("qk.*", "pv.*")", "mxfp4")
                             : rule(R"("fprop.w")", "mxfp4") + rule(R"("fprop.x")", "mxfp6"));
    const auto alone = results({"--precision", "one.toml"});
    EXPECT_EQ(layer["loss"], alone[1]["loss"]) << name;
    EXPECT_EQ(layer["above_f32"], alone[1]["above_f32"]) << name;
    EXPECT_NE(layer["above_f32"], 0) << name;
    sum += layer["above_f32"].get<double>();
  }
  EXPECT_EQ(linear, 2 * 4 + 1u) << "and attention";
  EXPECT_EQ(by_layer[1]["layers"].size(), 2 * 5 + 1u);
  EXPECT_NEAR(by_layer[1]["sum_of_layers"], sum, 1e-15);
}

TEST_F(LayerCostsTest, TheOneLayerThatRoundingChangesBearsTheWholeCost) {
  train();
  const TrainedModel model = trained();
  for (const LinearWeight& weight : model.model->linear_weights()) {  // what is in MXFP4 stays as it is
    if (weight.layer == "blocks.1.mlp.down") continue;
    const auto w = weight.parameter.value.host();
    quantize_reference(w.data(), w.data(), weight.parameter.value.rows(), weight.parameter.value.cols(),
                       Axis::row, mxfp4, {});
  }
  const LayerCosts costs = this->costs(model, {{"mxfp4", true}});
  const LayerLosses& losses = costs.precisions.front();
  EXPECT_EQ(losses.alone.size(), 2 * 4 + 1u);
  for (const auto& [layer, loss] : losses.alone) {
    if (layer == "blocks.1.mlp.down") continue;
    EXPECT_EQ(loss.above_f32, 0) << layer;
    EXPECT_EQ(loss.error, 0) << layer;
  }
  const RoundedLoss& worst = losses.alone.at("blocks.1.mlp.down");
  EXPECT_NE(worst.above_f32, 0);
  EXPECT_GT(worst.error, 0);
  EXPECT_EQ(worst.loss, losses.all.loss);
  EXPECT_EQ(worst.above_f32, losses.sum());
}

TEST_F(LayerCostsTest, TheStandardErrorIsThatOfTheWindowsDifferences) {
  train();
  const TrainedModel model = trained();
  const RoundedLoss rounded = costs(model, {{"mxfp4"}}).precisions[0].alone.at("head");
  const std::int64_t context = model.model->config().context;
  std::vector<double> differences;
  double largest = 0;
  for (std::int64_t i = 0; i < 8; ++i) {
    std::vector<std::int32_t> window;
    for (std::int64_t t = 0; t <= context; ++t) window.push_back(data_.validation[i * context + t]);
    const auto split = Split::from_tokens(window, data_.tokenizer.size());
    const auto one =
        layer_costs(model, split, {.pass = model.next_pass()}, std::vector<Cast>{{"mxfp4"}}, stderr);
    differences.push_back(one.precisions[0].alone.at("head").above_f32);
    EXPECT_TRUE(std::isnan(one.precisions[0].alone.at("head").error)) << "of one window";
    largest = std::max(largest, one.f32);
  }
  double mean = 0, squares = 0;
  for (const double d : differences) mean += d / 8;
  for (const double d : differences) squares += (d - mean) * (d - mean);
  // Each window's two losses are means of `context` f32 numbers, in f32 there and in double here.
  const double off = 2 * gamma(double(context) + 1) * largest;
  EXPECT_NEAR(rounded.error, std::sqrt(squares / (8 * 7)), off);
  EXPECT_GT(rounded.error, 10 * off);
}

TEST_F(LayerCostsTest, TheTypeBetweenLayersCountsAsALayer) {
  train({"--compute.activations=bf16"});
  const LayerCosts costs = this->costs(trained(), {{"recipe"}, {"mxfp4"}});
  EXPECT_TRUE(costs.precisions[0].alone.contains("activations"));
  EXPECT_FALSE(costs.precisions[1].alone.contains("activations"));
  EXPECT_EQ(costs.layers.back(), "activations");
  const std::string table = layer_table(costs);
  const auto row = table.find("\nactivations") + 1, end = table.find('\n', row);
  EXPECT_EQ(end - row, table.find(" recipe") + 7) << "nothing under mxfp4\n" << table;
}

TEST_F(LayerCostsTest, TheTableBeginsWithTheMostExpensiveLayer) {
  LayerCosts costs{.f32 = 1, .layers = {"a", "b.long.name", "c"}};
  costs.precisions.push_back(
      {"mxfp4", {1.5, 0.5, 0.125}, {{"a", {1.125, 0.125, 0.01}}, {"c", {1.25, 0.25, NAN}}}});
  costs.precisions.push_back({"nvfp4", {1.25, 0.25, 0}, {{"b.long.name", {0.5, -0.5, 0}}}});
  EXPECT_EQ(layer_table(costs).substr(0, layer_table(costs).find("\n\n")),
            "layer                     mxfp4              nvfp4\n"
            "c             +0.2500\n"
            "a             +0.1250 +- 0.0100\n"
            "b.long.name                      -0.5000 +- 0.0000\n"
            "sum of these  +0.3750            -0.5000\n"
            "all together  +0.5000 +- 0.1250  +0.2500 +- 0.0000");
}

TEST_F(LayerCostsTest, IsDrawnAndWhatCannotBeIsRefusedBeforeTheWork) {
  train();
  const bool drawn = std::system("command -v gnuplot >/dev/null") == 0;
  EXPECT_EQ(run({"eval", "runs/tiny", "--precision", "mxfp4", "--precision", "nvfp4", "--by", "layer",
                 "--plot", "costs"}),
            drawn ? 0 : int(ExitCode::resource))
      << output_;
  EXPECT_TRUE(says("\nsum of these "));
  EXPECT_TRUE(says("\nblocks.1.mlp.down "));
  if (drawn) {
    const std::string svg = read_whole_text(folder_ / "costs.svg");
    for (const char* text : {"blocks.0.attn.qkv", "head", "nvfp4"})
      EXPECT_NE(svg.find(text), std::string::npos) << text;
    EXPECT_TRUE(std::filesystem::exists(folder_ / "costs.png"));
  }
  EXPECT_EQ(run({"eval", "runs/tiny", "--precision", "mxfp4", "--by", "layer", "--json", "--plot",
                 "/proc/nope/costs"}),
            int(ExitCode::resource));
  EXPECT_TRUE(says("\"checkpoint\": ")) << "what was measured is not lost: " << output_;
  const auto refused = [&](std::vector<std::string> words, const std::string& message) {
    words.insert(words.begin(), {"eval", "runs/tiny"});
    EXPECT_EQ(run(words), int(ExitCode::usage));
    EXPECT_TRUE(says(message));
  };
  refused({"--by", "layer"}, "--by requires --precision");
  refused({"--precision", "mxfp4", "--plot", "x"}, "--plot requires --by");
  refused({"--precision", "mxfp4", "--by", "layer", "--plot", "x.svg"}, "--plot 'x.svg': want the name");
  refused({"--precision", "mxfp4", "--by", "layer", "--text", "tiny.toml"}, "--by excludes --text");
  refused({"--precision", "mxfp4", "--precision", "f32", "--by", "layer"},
          "--by layer: precision 'f32' rounds no layer; leave it out");
}

}  // namespace
}  // namespace mxtape::test
