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
            "model.width = 768 is not a multiple of model.heads = 5; every head has width / heads channels, "
            "or model.head_width of them");
  EXPECT_EQ(message([](ModelConfig& c) { c.dropout = 1; }), "model.dropout = 1; want a number in [0, 1)");
  EXPECT_EQ(message([](ModelConfig& c) { c.norm_eps = 0; }), "model.norm_eps = 0; want a number > 0");
  EXPECT_EQ(message([](ModelConfig& c) { c.mlp_width = -1; }),
            "model.mlp_width = -1; want an integer > 0, or 0 for 4 width");
  EXPECT_EQ(message([](ModelConfig& c) { c.kv_heads = 5; }),
            "model.kv_heads = 5 does not divide model.heads = 12; each head of keys serves as many queries");
  EXPECT_EQ(message([](ModelConfig& c) { c.qk_norm = true; }),
            "model.qk_norm = true with learned positions; want model.positions = \"rope\"");
  const auto rope = [&](auto change) {
    return message([&](ModelConfig& c) { c.positions = Positions::rope, change(c); });
  };
  EXPECT_EQ(rope([](ModelConfig& c) { c.qk_norm = true; }), "no error");
  EXPECT_EQ(rope([](ModelConfig& c) { c.head_width = 33; }),
            "heads of 33 channels cannot be turned by pairs; want an even model.head_width, or model.width / "
            "model.heads");
  EXPECT_EQ(rope([](ModelConfig& c) { c.rope.scaling = RopeScaling::llama3; }),
            "model.rope_original = 0; \"llama3\" wants the context that the model was first trained with");
  EXPECT_EQ(rope([](ModelConfig& c) {
              c.rope = {.scaling = RopeScaling::llama3, .factor = 8, .low = 4, .high = 4, .original = 64};
            }),
            "model.rope_low = 4, model.rope_high = 4; want 0 < low < high");
}

/// Llama 3.2 1B: published as 1.24 billion.
const ModelConfig llama_1b{.vocabulary = 128256,
                           .layers = 16,
                           .heads = 32,
                           .width = 2048,
                           .context = 2048,
                           .mlp_width = 8192,
                           .bias = false,
                           .norm = NormKind::rms,
                           .positions = Positions::rope,
                           .mlp = MlpKind::swiglu,
                           .kv_heads = 8};

TEST(ModelConfig, ALlamaHasItsPublishedNumberOfParameters) {
  EXPECT_EQ(parameter_count(llama_1b), 1'235'814'400);
}

TEST(ModelConfig, ALlamaNamesItsLayers) {
  ModelConfig c = llama_1b;
  c.layers = 1;
  EXPECT_EQ(linear_layer_names(c),
            (std::vector<std::string>{"blocks.0.attn.qkv", "blocks.0.attn.out", "blocks.0.mlp.gate_up",
                                      "blocks.0.mlp.down", "head"}));
  EXPECT_EQ(parameter_layer_names(c),
            (std::vector<std::string>{"embedding", "blocks.0.norm1", "blocks.0.norm2", "norm"}));
  c.qk_norm = true;
  EXPECT_EQ(parameter_layer_names(c),
            (std::vector<std::string>{"embedding", "blocks.0.norm1", "blocks.0.attn.q_norm",
                                      "blocks.0.attn.k_norm", "blocks.0.norm2", "norm"}));
}

TEST(ModelConfig, SwigluIsEightThirdsOfTheWidthWideUpToAMultipleOf64) {
  const auto hidden = [](std::int64_t width) {
    return ModelConfig{.width = width, .mlp = MlpKind::swiglu}.hidden();
  };
  EXPECT_EQ(hidden(768), 2048);
  EXPECT_EQ(hidden(128), 384);
  EXPECT_EQ(hidden(4096), 10944);
  EXPECT_EQ(hidden(24), 64);
}

}  // namespace
}  // namespace mxtape
