#include "nn/model.h"

#include <gtest/gtest.h>

#include "core/error.h"

namespace mxtape {
namespace {

const ModelConfig gpt2_124m{.vocabulary = 50257, .layers = 12, .heads = 12, .width = 768, .context = 1024};

TEST(ModelConfig, Gpt2HasItsPublishedNumberOfParameters) {
  EXPECT_EQ(parameter_count(gpt2_124m), 124'439'808);
}

TEST(ModelConfig, AHeadOfItsOwnAddsItsMatrix) {
  ModelConfig c = gpt2_124m;
  c.tied_head = false;
  EXPECT_EQ(parameter_count(c), 124'439'808 + 50257 * 768);
}

TEST(ModelConfig, NamesItsLayersInTheOrderOfComputation) {
  const ModelConfig c{.vocabulary = 3, .layers = 2};
  EXPECT_EQ(linear_layer_names(c),
            (std::vector<std::string>{"blocks.0.attn.qkv", "blocks.0.attn.out", "blocks.0.mlp.up",
                                      "blocks.0.mlp.down", "blocks.1.attn.qkv", "blocks.1.attn.out",
                                      "blocks.1.mlp.up", "blocks.1.mlp.down", "head"}));
  EXPECT_EQ(attention_layer_names(c), (std::vector<std::string>{"blocks.0.attn", "blocks.1.attn"}));
}

TEST(ModelConfig, ErrorsNameTheKeyTheValueAndWhatIsWanted) {
  const auto message = [](auto change) {
    ModelConfig c = gpt2_124m;
    change(c);
    try {
      validate(c);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::usage);
      return std::string(error.what());
    }
    return std::string("no error");
  };
  EXPECT_EQ(message([](ModelConfig&) {}), "no error");
  EXPECT_EQ(message([](ModelConfig& c) { c.layers = 0; }), "model.layers = 0; want an integer > 0");
  EXPECT_EQ(message([](ModelConfig& c) { c.vocabulary = 0; }), "no error");  // the data will say
  EXPECT_EQ(message([](ModelConfig& c) { c.vocabulary = -1; }),
            "model.vocabulary = -1; want an integer > 0, or 0 for the data's");
  EXPECT_EQ(message([](ModelConfig& c) { c.heads = 5; }),
            "model.width = 768 is not a multiple of model.heads = 5; every head has width / heads channels");
  EXPECT_EQ(message([](ModelConfig& c) { c.dropout = 1; }), "model.dropout = 1; want a number in [0, 1)");
  EXPECT_EQ(message([](ModelConfig& c) { c.norm_eps = 0; }), "model.norm_eps = 0; want a number > 0");
  EXPECT_EQ(message([](ModelConfig& c) { c.mlp_width = -1; }),
            "model.mlp_width = -1; want an integer > 0, or 0 for 4 width");
}

}  // namespace
}  // namespace mxtape
