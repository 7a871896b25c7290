// A packed model computes what its checkpoint computes in the same precision, in the memory of its codes.
#include "train/saved/packed_model.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "core/files/atomic_file.h"
#include "tests/support/tensors.h"
#include "tests/train/tiny_run.h"
#include "train/checkpoint.h"
#include "train/evaluate.h"

namespace mxtape {
namespace {

using test::TinyRun;

/// Blocks end raggedly: 48 is no multiple of 32, nor 20 of 16.
Recipe packed_recipe() {
  Recipe recipe = test::tiny_recipe(3);
  recipe.model.width = 48;
  recipe.model.mlp_width = 20;
  return recipe;
}

Recipe packed_llama_recipe() {
  Recipe recipe = packed_recipe();
  ModelConfig& m = recipe.model;
  m.norm = NormKind::rms, m.positions = Positions::rope, m.mlp = MlpKind::swiglu, m.bias = false;
  m.heads = 4, m.kv_heads = 2, m.head_width = 10, m.qk_norm = true, m.tied_head = false;
  return recipe;
}

struct Precision {
  std::string weights, activations = "f32", head = "f32", rotation = "";
};

class PackedModel : public testing::Test {
 protected:
  explicit PackedModel(const Recipe& recipe = packed_recipe()) : run_(recipe) {
    run_.run(2);
    run_.trainer.save(checkpoint_);
  }

  /// The recipe of the checkpoint in another precision.
  Recipe recipe_in(const Precision& p) const {
    Recipe recipe = CheckpointFile(checkpoint_).header().recipe;
    recipe.precision.weights = p.weights;
    recipe.precision.activations = p.activations;
    recipe.precision.head = p.head;
    if (!p.rotation.empty())
      recipe.precision.rules.push_back({.slots = {"fprop.hadamard"}, .format = p.rotation});
    return recipe;
  }
  static PassKey pass_of(const Recipe& recipe) { return {.seed = recipe.seed, .step = 2}; }

  /// From the checkpoint, in f32 parameters.
  std::unique_ptr<Model> whole(Backend& backend, const Recipe& recipe) const {
    auto model = make_model(backend, recipe.model, precision_plan(recipe, 2), recipe.seed);
    CheckpointFile(checkpoint_).read_parameters(backend, model->parameters());
    return model;
  }
  PackedModelFile pack(const Recipe& recipe) {
    PackedHeader header{CheckpointFile(checkpoint_).header(), "test", "0"};
    header.model.recipe = recipe;
    const auto model = whole(*backend_, recipe);
    write_packed_model(packed_, header, *backend_, *model, pass_of(recipe));
    return PackedModelFile(packed_);
  }
  std::vector<float> logits(Backend& backend, Model& model) const {
    Tape tape(backend, Tape::Mode::evaluation, pass_of(run_.recipe));
    const auto tokens = test::random_tokens(32, std::int32_t(run_.data.tokenizer.size()), 5);
    return test::download(backend, model.forward(tape, upload_tokens(backend, tokens, {2, 16})).value);
  }

  const TemporaryFolder folder_;
  const std::filesystem::path checkpoint_ = folder_ / "checkpoint.h5", packed_ = folder_ / "packed.h5";
  TinyRun run_;
  std::unique_ptr<Backend> backend_ = make_backend("cpu");
};

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

TEST_F(PackedModel, GivesTheCheckpointsLogitsBitForBitInEveryFormatAndRotation) {
  std::vector<std::string> formats{"bf16",
                                   "f16",
                                   "e4m3",
                                   "e5m2",
                                   "mxfp4 rule=even round=stochastic",
                                   "mxfp4 rule=ceil alpha=0.75",
                                   "nvfp4 4o6",
                                   "nvfp4 round=stochastic",
                                   "mxint8 offset=fp16",
                                   "mxfp4 offset=fp16",
                                   "int4 block=32 scale=e8m0 offset=fp16",
                                   "e2m1 block=32 scale=f32",
                                   "e2m1 block=32 scale=f32 offset=fp16",
                                   "int5 block=16 scale=e8m0",
                                   "e3m4 block=32 scale=e4m0",
                                   "e2m1 block=16x16 scale=e8m0",
                                   "e4m3 block=tensor scale=f32",
                                   "int8 block=axis scale=f32",
                                   "e5m10 block=7 scale=e8m0"};
  for (const Preset& preset : presets) formats.emplace_back(preset.name);
  for (const NamedFormat& row : element_formats)
    if (row.format.bits() <= 8) formats.push_back(std::string(row.name) + " block=32 scale=e8m0");
  const std::vector<float> f32 = logits(*backend_, *whole(*backend_, recipe_in({"f32"})));
  for (const std::string& format : formats)
    for (const char* rotation : {"", "hadamard=16 signs=run", "hadamard=32 signs=call"}) {
      SCOPED_TRACE(format + " " + rotation);
      // The head is tied to the embedding: one tensor, in f32 and packed.
      const Recipe recipe = recipe_in({format, format, format, rotation});
      const PackedModelFile file = pack(recipe);
      const auto device = make_backend("cpu");
      const auto model = file.load(*device);
      const auto want = logits(*backend_, *whole(*backend_, recipe));
      EXPECT_TRUE(same_bits(logits(*device, *model), want));
      EXPECT_TRUE(same_bits(logits(*device, *model), want)) << "the second time";
      EXPECT_FALSE(same_bits(want, f32)) << "nothing was rounded";
    }
}

struct PackedLlama : PackedModel {
  PackedLlama() : PackedModel(packed_llama_recipe()) {}
};
TEST_F(PackedLlama, GivesTheCheckpointsLogitsBitForBit) {
  const std::vector<float> f32 = logits(*backend_, *whole(*backend_, recipe_in({"f32"})));
  for (const char* format : {"mxfp4", "mxfp6", "nvfp4", "int8 block=axis scale=f32"}) {
    const Recipe recipe = recipe_in({format, format, format});
    const PackedModelFile file = pack(recipe);
    const auto want = logits(*backend_, *whole(*backend_, recipe));
    const auto device = make_backend("cpu");
    EXPECT_TRUE(same_bits(logits(*device, *file.load(*device)), want)) << format;
    EXPECT_FALSE(same_bits(want, f32)) << format;
  }
}

TEST_F(PackedModel, OfWeightsAloneLeavesActivationsAsTheyAre) {
  for (const char* activations : {"f32", "mxfp8_e4m3 round=stochastic"}) {
    const Recipe recipe = recipe_in({.weights = "mxfp4", .activations = activations});
    const PackedModelFile file = pack(recipe);
    const auto model = file.load(*backend_);
    EXPECT_TRUE(same_bits(logits(*backend_, *model), logits(*backend_, *whole(*backend_, recipe))));
  }
}

TEST_F(PackedModel, TakesTheMemoryOfItsCodesAndOfOneUnpackedLayer) {
  Recipe recipe = recipe_in({.weights = "mxfp4", .activations = "mxfp4"});
  // What passes between layers: all that is in use at the peak of a second evaluation but what stays.
  const EvaluateOptions options{.windows = 4, .batch_size = 1, .pass = pass_of(recipe)};
  const auto f32 = make_backend("cpu");
  const auto whole_model = whole(*f32, recipe);
  for (int i = 0; i < 2; ++i) evaluate(*f32, *whole_model, run_.data.validation, options);
  const std::int64_t activations = f32->peak_bytes() - f32->used_bytes();

  const PackedModelFile file = pack(recipe);
  const auto backend = make_backend("cpu");
  const auto model = file.load(*backend);
  // What the file holds, each part rounded up to the pool's granule.
  std::int64_t stored = 0, parts = 0;
  for (const auto& row : file.rows()) stored += row.bytes, parts += row.packed ? 2 : 1;
  constexpr std::int64_t granule = 256;
  EXPECT_LE(backend->peak_bytes(), stored + parts * granule) << "loading takes what stays";
  const std::int64_t resting = backend->used_bytes();
  const std::int64_t largest = 3 * 48 * 48 * 2;  // blocks.*.attn.qkv in bf16
  for (int i = 0; i < 2; ++i) evaluate(*backend, *model, run_.data.validation, options);
  EXPECT_EQ(backend->used_bytes(), resting) << "no copy stays";
  // The pool hands out blocks that are up to an eighth larger than what is asked for.
  EXPECT_LE(backend->peak_bytes(), resting + largest * 9 / 8 + activations * 9 / 8);
  // All four layers of a block in f32 are more than that: the bound sees a copy that stays.
  EXPECT_LT(backend->peak_bytes(), f32->used_bytes());
}

TEST_F(PackedModel, CannotBeTrainedNorEvaluatedInAnotherPrecision) {
  const PackedModelFile file = pack(recipe_in({"mxfp4"}));
  const auto model = file.load(*backend_);
  const auto text_of = [](const auto& work) -> std::string {
    try {
      work();
    } catch (const Error& e) {
      return e.what();
    }
    return "";
  };
  const auto tokens = upload_tokens(*backend_, std::vector<std::int32_t>(16), {1, 16});
  EXPECT_EQ(text_of([&] {
              Tape tape(*backend_, Tape::Mode::training);
              model->forward(tape, tokens);
            }),
            "linear: 'blocks.0.attn.qkv.weight' is packed, it can only be evaluated");
  Recipe other = recipe_in({"mxfp8"});
  model->set_precision(precision_plan(other, 2));
  EXPECT_NE(text_of([&] { logits(*backend_, *model); }).find("a weight is packed as 'mxfp4'"),
            std::string::npos);
  EXPECT_NE(text_of([&] { (void)CheckpointFile(packed_); }).find("a packed model"), std::string::npos);
  EXPECT_NE(text_of([&] { (void)PackedModelFile(checkpoint_); }).find("not a packed model"),
            std::string::npos);
}

TEST_F(PackedModel, SaysWhatCannotBePacked) {
  const auto text_of = [&](const Precision& precision) -> std::string {
    try {
      pack(recipe_in(precision));
    } catch (const Error& e) {
      return e.what();
    }
    return "";
  };
  EXPECT_NE(text_of({"f32"}).find("nothing to pack: in precision 'test' every layer"), std::string::npos);
  for (Parameter* parameter : run_.trainer.model().parameters())
    if (parameter->name == "blocks.0.attn.out.weight") std::fill_n(parameter->value.data() + 48, 48, 3e38f);
  std::filesystem::remove(checkpoint_);
  run_.trainer.save(checkpoint_);
  // The rotation's sums overflow, and E3M2 scales have no NaN.
  const std::string said =
      text_of({.weights = "e2m1 scale=e3m2 block=16", .rotation = "hadamard=16 signs=none"});
  EXPECT_TRUE(said.starts_with("layer 'blocks.0.attn.out' cannot be packed: pack: element ")) << said;
  EXPECT_FALSE(std::filesystem::exists(packed_)) << "nothing is left of it";
}

TEST_F(PackedModel, WithOneByteChangedOrCutIsRefused) {
  pack(recipe_in({"nvfp4"}));
  const auto whole_file = read_whole(packed_);
  for (std::size_t i = 0; i < whole_file.size(); i += whole_file.size() / 97) {
    auto bytes = whole_file;
    bytes[i] ^= std::byte{4};
    write_atomically(packed_, bytes);
    EXPECT_THROW(PackedModelFile{packed_}, Error) << "byte " << i;
    bytes = whole_file;
    bytes.resize(i);
    write_atomically(packed_, bytes);
    EXPECT_THROW(PackedModelFile{packed_}, Error) << "cut to " << i;
  }
}

}  // namespace
}  // namespace mxtape
