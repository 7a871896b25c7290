#include "recipes/shipped.h"

#include <algorithm>
#include <array>
#include <sstream>
#include <tuple>

#include "autograd/slots.h"
#include "tests/recipes/recipe_files.h"

namespace mxtape {
namespace {

TEST(ShippedRecipes, EachOneReadsIsDescribedAndHasAPlanForEveryPhase) {
  EXPECT_GE(shipped_recipes().size(), 30u);
  for (const auto& shipped : shipped_recipes()) {
    const Recipe r = read_recipe(std::string(shipped.name));
    EXPECT_FALSE(r.description.empty()) << shipped.name;
    for (const std::int64_t step : plan_changes(r)) EXPECT_FALSE(precision_plan(r, step).linear.empty());
    const bool precision_only = shipped.name.starts_with("precision/");
    EXPECT_EQ(r.data.file.empty(), precision_only) << shipped.name;
  }
}

TEST(ShippedRecipes, TheFileInTheSourceTreeIsTheSameRecipe) {
  for (const auto& shipped : shipped_recipes()) {
    const std::string name(shipped.name);
    const Recipe from_file = read_recipe(MXTAPE_SOURCE "/recipes/" + name + ".toml");
    EXPECT_TRUE(differences(from_file, read_recipe(name)).empty()) << name;
  }
}

TEST(ShippedRecipes, TheyAreSortedByName) {
  EXPECT_TRUE(std::is_sorted(shipped_recipes().begin(), shipped_recipes().end(),
                             [](const auto& a, const auto& b) { return a.name < b.name; }));
}

TEST(ShippedRecipes, TheReferencePageIsWhatTheKnobTableSays) {
  std::ostringstream page;
  page << std::ifstream(MXTAPE_SOURCE "/docs/recipes.md").rdbuf();
  EXPECT_TRUE(page.str() == recipe_reference()) << "run: mxtape recipes --reference > docs/recipes.md";
}

TEST(ShippedRecipes, ShakespeareIsNanoGptsModel) {
  const Recipe r = read_recipe("shakespeare");
  ModelConfig model = r.model;
  model.vocabulary = 65;
  // nanoGPT prints 0.80M for this model, without the positions: 4 blocks of 12 C^2 + 2 C, V C, C.
  EXPECT_EQ(parameter_count(model) - 64 * 128, 4 * (12 * 128 * 128 + 2 * 128) + 65 * 128 + 128);
  EXPECT_EQ(r.train.batch_size * r.model.context, 768);
}

// Of GPT-2 as OpenAI has them, with 50257 tokens; and half a million tokens a step, or a million.
TEST(ShippedRecipes, Gpt2HasItsNumberOfParameters) {
  EXPECT_EQ(parameter_count(read_recipe("gpt2-124m").model), 124439808);
  const std::pair<const char*, std::int64_t> sizes[] = {{"gpt2-124m", 124439808},
                                                        {"gpt2-350m", 354823168},
                                                        {"gpt2-774m", 774030080},
                                                        {"gpt2-1.5b", 1557611200}};
  for (const auto& [name, parameters] : sizes)
    for (const char* precision : {"bf16", "mxfp4"}) {
      const Recipe r = read_recipe(fmt::format("{}-cuda-{}", name, precision));
      ModelConfig model = r.model;
      model.vocabulary = 50257;
      EXPECT_EQ(parameter_count(model), parameters) << r.name;
      EXPECT_EQ(r.train.batch_size * r.train.accumulation * model.context % (1 << 19), 0) << r.name;
    }
}

// Within a hundredth, so that their steps and losses compare.
TEST(ShippedRecipes, LlamasHaveAsManyParametersAsTheGpt2OfTheirSize) {
  const auto parameters = [](const char* name, std::int64_t vocabulary) {
    ModelConfig model = read_recipe(name).model;
    model.vocabulary = vocabulary;
    return double(parameter_count(model));
  };
  const std::tuple<const char*, const char*, std::int64_t> pairs[] = {
      {"llama-shakespeare", "shakespeare", 65},
      {"llama-demo-bf16", "demo-bf16", 64},
      {"llama-124m", "gpt2-124m", 50257},
      {"llama-350m-cuda-bf16", "gpt2-350m-cuda-bf16", 50257}};
  for (const auto& [llama, gpt2, vocabulary] : pairs) {
    const double positions = double(read_recipe(gpt2).model.context * read_recipe(gpt2).model.width);
    const double want = parameters(gpt2, vocabulary);
    EXPECT_NEAR(parameters(llama, vocabulary), want, std::max(0.01 * want, 1.01 * positions)) << llama;
  }
  EXPECT_EQ(std::int64_t(parameters("llama-1b-cuda-mxfp4", 128256)), 1235814400);  // as Llama 3.2 1B
}

TEST(ShippedRecipes, PrecisionsAreWhatTheirPapersSay) {
  const auto layer = [](const char* name, const char* layer_name) {
    return precision_plan(read_recipe(name), 0).linear.at(layer_name);
  };
  const LinearQuant tseng = layer("shakespeare-tseng2025", "blocks.1.mlp.up");
  EXPECT_EQ(tseng.fprop_x, bf16_cast);
  EXPECT_EQ(tseng.dgrad_w.alpha, 0.75f);
  EXPECT_TRUE(tseng.dgrad_w == tseng.dgrad_dy && tseng.wgrad_x == tseng.wgrad_dy &&
              tseng.dgrad_w.is_stochastic());
  EXPECT_EQ(tseng.dgrad_rotation, (Rotation{64, SignsPer::call}));
  EXPECT_EQ(tseng.fprop_rotation, Rotation{});

  const LinearQuant nvidia = layer("shakespeare-nvidia2025", "blocks.1.mlp.up");
  EXPECT_EQ(nvidia.fprop_w.block, (BlockShape{16, 16}));
  EXPECT_EQ(nvidia.fprop_w, nvidia.dgrad_w);
  EXPECT_EQ(nvidia.wgrad_rotation, (Rotation{16, SignsPer::run}));
  EXPECT_EQ(nvidia.dgrad_rotation, Rotation{});
  EXPECT_TRUE(nvidia.dgrad_dy.is_stochastic() && !nvidia.wgrad_x.is_stochastic());
  for (const char* kept : {"blocks.0.attn.qkv", "blocks.3.mlp.down"}) {
    EXPECT_EQ(layer("shakespeare-nvidia2025", kept).wgrad_dy, bf16_cast);
    EXPECT_EQ(layer("shakespeare-nvidia2025", kept).wgrad_rotation, Rotation{});
  }

  const LinearQuant rouhani = layer("shakespeare-rouhani2023-mxfp4w-mxfp6a", "blocks.1.mlp.up");
  EXPECT_EQ(rouhani.dgrad_w.element, e2m1);
  EXPECT_EQ(rouhani.wgrad_dy.element, e3m2);
  EXPECT_EQ(rouhani.fprop_x.rounding, Rounding::away);
  EXPECT_EQ(layer("shakespeare-yang2025-e3m0", "blocks.0.mlp.up").dgrad_dy.element, e3m0);
  EXPECT_EQ(layer("shakespeare-yang2025-e2m1", "head").fprop_x, bf16_cast);
}

/// A paper's recipe: the six operands, and what else is done to each GEMM's.
struct Paper {
  const char* fragment;
  std::array<const char*, 6> slots;      // in the order of linear_slots
  std::array<const char*, 3> rotations;  // of rotation_slots
  OperandSource source;                  // of both
  SteKind ste;                           // of both
};
const Paper papers[] = {
    {"quartet2025",
     {"mxfp4 statistic=rms rule=rnearest", "mxfp4 statistic=rms rule=rnearest", "mxfp4 alpha=0.75",
      "mxfp4 alpha=0.75", "mxfp4 alpha=0.75", "mxfp4 alpha=0.75"},
     {"hadamard=32 signs=none", "hadamard=32 signs=call", "hadamard=32 signs=call"},
     OperandSource::forward,
     SteKind::mask},
    {"quartet2-2026",
     {"nvfp4 4o6", "nvfp4 4o6", "nvfp4 eden scale.round=stochastic alpha=1.012",
      "nvfp4 eden scale.round=stochastic alpha=1.012", "nvfp4 eden scale.round=stochastic alpha=1.012",
      "nvfp4 eden scale.round=stochastic alpha=1.012"},
     {"hadamard=0", "hadamard=128 signs=call", "hadamard=128 signs=call"},
     OperandSource::forward,
     SteKind::identity},
    {"tetrajet2025",
     {"mxfp4 rule=rceil", "mxfp4 rule=rceil", "mxfp4 rule=rceil round=stochastic",
      "mxfp4 rule=rceil round=stochastic", "mxfp4 rule=rceil round=stochastic",
      "mxfp4 rule=rceil round=stochastic"},
     {"hadamard=0", "hadamard=0", "hadamard=0"},
     OperandSource::forward,
     SteKind::identity},
    {"chmiel2025",
     {"nvfp4", "nvfp4", "nvfp4 round=stochastic", "nvfp4", "nvfp4 round=stochastic",
      "nvfp4 round=stochastic"},
     {"hadamard=0", "hadamard=0", "hadamard=0"},
     OperandSource::master,
     SteKind::identity},
    {"mxfp8-mishra2025",
     {"mxfp8_e4m3 rule=rceil", "mxfp8_e4m3 rule=rceil", "mxfp8_e4m3 rule=rceil", "mxfp8_e4m3 rule=rceil",
      "mxfp8_e4m3 rule=rceil", "mxfp8_e4m3 rule=rceil"},
     {"hadamard=0", "hadamard=0", "hadamard=0"},
     OperandSource::master,
     SteKind::identity},
    {"fp8-tensor",
     {"e4m3 block=tensor scale=e4m3", "e4m3 block=tensor scale=e4m3", "e5m2 block=tensor scale=e4m3",
      "e4m3 block=tensor scale=e4m3", "e5m2 block=tensor scale=e4m3", "e4m3 block=tensor scale=e4m3"},
     {"hadamard=0", "hadamard=0", "hadamard=0"},
     OperandSource::master,
     SteKind::identity},
    {"yang2025-int4",
     {"int4 block=32 scale=e8m0 emax=3 rule=ceil offset=fp16",
      "int4 block=32 scale=e8m0 emax=3 rule=ceil offset=fp16", "mxfp4 rule=even round=stochastic",
      "int4 block=32 scale=e8m0 emax=3 rule=ceil offset=fp16", "mxfp4 rule=even round=stochastic",
      "int4 block=32 scale=e8m0 emax=3 rule=ceil offset=fp16"},
     {"hadamard=0", "hadamard=0", "hadamard=0"},
     OperandSource::master,
     SteKind::identity},
};

TEST(ShippedRecipes, TheSixOperandsOfEachPaperAreThoseOfItsFragment) {
  for (const Paper& paper : papers) {
    const auto plan = precision_plan(
        read_recipe_onto(read_recipe("shakespeare"), fmt::format("precision/{}", paper.fragment), {}), 0);
    for (const auto& [layer, q] : plan.linear) {
      if (layer == "head") {
        EXPECT_EQ(q.fprop_w, bf16_cast) << paper.fragment;
        continue;
      }
      for (std::size_t i = 0; i < linear_slots.size(); ++i)
        EXPECT_EQ(q.*linear_slots[i].field, parse_quantizer(paper.slots[i]))
            << paper.fragment << " " << linear_slots[i].name;
      for (std::size_t i = 0; i < rotation_slots.size(); ++i)
        EXPECT_EQ(q.*rotation_slots[i].field, parse_rotation(paper.rotations[i]))
            << paper.fragment << " " << rotation_slots[i].name;
      EXPECT_TRUE(q.dgrad_source == paper.source && q.wgrad_source == paper.source) << paper.fragment;
      EXPECT_TRUE(q.x_ste.kind == paper.ste && q.w_ste.kind == paper.ste) << paper.fragment;
      EXPECT_TRUE(q.out.is_identity()) << paper.fragment;
    }
  }
}

}  // namespace
}  // namespace mxtape
