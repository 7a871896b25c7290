// Folders with codes as compressed-tensors has them, decoded by hand, and by transformers. MXTAPE_PYTHON
// names a Python that has torch, transformers and compressed_tensors; without one that test is skipped.
#include <cstring>

#include "formats/codec/codec.h"
#include "tests/program/foreign_fixture.h"

namespace mxtape::test {
namespace {

using Json = nlohmann::json;

class CompressedTensors : public ForeignTest {
 protected:
  void make(const std::string& name, const std::string& weights, const std::vector<std::string>& more = {}) {
    train(name, weights, true, more);
    ASSERT_EQ(run({"export", "runs/" + name, "--to", "hf", "--weights", "rounded", "-o", name + "-f32"}), 0)
        << output_;
    ASSERT_EQ(run({"export", "runs/" + name, "--to", "compressed-tensors", "--dtype", "f32", "-o", name}), 0)
        << output_;
  }
  Json quantization(const std::string& name) const {
    return Json::parse(text_of(name + "/config.json"))["quantization_config"];
  }
  /// The bytes of a tensor, as the file has them.
  std::string bytes(const SafetensorsFile& file, const TensorInfo& tensor) const {
    const std::string all = text_of(file.path().lexically_relative(folder_.path()).string());
    std::uint64_t header;
    std::memcpy(&header, all.data(), sizeof header);
    return all.substr(std::size_t(8 + header + tensor.begin), std::size_t(tensor.end - tensor.begin));
  }
  /// The numbers that the three tensors in the place of a weight stand for.
  std::vector<double> decoded(const SafetensorsFile& file, const std::string& name) const {
    const TensorInfo &packed = file.at(name + "_packed"), &scale = file.at(name + "_scale");
    const std::string codes = bytes(file, packed), scales = bytes(file, scale);
    EXPECT_EQ(packed.dims[0], scale.dims[0]);
    float divisor = 1;
    if (const TensorInfo* global = file.find(name + "_global_scale"))
      file.read_f32(*global, 0, {&divisor, 1});
    const std::size_t in_block = 2 * codes.size() / scales.size();
    EXPECT_EQ(in_block, scale.type == TensorType::u8 ? 32u : 16u);
    std::vector<double> values;
    for (std::size_t i = 0; i < 2 * codes.size(); ++i) {
      const auto of_block = std::uint8_t(scales[i / in_block]);
      const double factor = scale.type == TensorType::u8 ? std::ldexp(1.0, of_block - 127)
                                                         : double(decode(e4m3, of_block)) / double(divisor);
      values.push_back(double(decode(e2m1, std::uint8_t(codes[i / 2]) >> i % 2 * 4 & 15)) * factor);
    }
    return values;
  }
};

struct Case {
  const char *name, *weights, *format;
};
const Case cases[] = {{"mxfp4", "mxfp4", "mxfp4-pack-quantized"},
                      {"mxfp4-tiles", "mxfp4 block=32x32 rule=even", "mxfp4-pack-quantized"},
                      {"nvfp4", "nvfp4", "nvfp4-pack-quantized"},
                      {"nvfp4-tiles", "nvfp4 block=16x16", "nvfp4-pack-quantized"}};

TEST_F(CompressedTensors, HoldTheNumbersThatTheForwardPassOfTheRunMultipliesBy) {
  for (const Case& c : cases) {
    SCOPED_TRACE(c.name);
    const std::string name = c.name;
    make(name, c.weights);
    EXPECT_EQ(quantization(name)["format"], c.format);
    const SafetensorsFile there(folder_ / (name + "-f32/model.safetensors")),
        codes(folder_ / (name + "/model.safetensors"));
    // What a reader divides by, 1 / multiplier, is rounded, and so are the numbers that are wanted.
    const double most = c.format[0] == 'n' ? 0x1p-23 : 0;
    std::size_t packed = 0;
    for (const TensorInfo& tensor : there.tensors()) {
      std::vector<float> wanted(tensor.count());
      there.read_f32(tensor, 0, wanted);
      if (const TensorInfo* plain = codes.find(tensor.name)) {
        std::vector<float> found(plain->count());
        codes.read_f32(*plain, 0, found);
        EXPECT_EQ(found, wanted) << tensor.name;
        continue;
      }
      ++packed;
      const std::vector<double> found = decoded(codes, tensor.name);
      ASSERT_EQ(found.size(), wanted.size());
      for (std::size_t i = 0; i < found.size(); ++i)
        ASSERT_NEAR(found[i], double(wanted[i]), most * std::abs(double(wanted[i]))) << tensor.name << i;
    }
    EXPECT_EQ(packed, 14u);
    EXPECT_EQ(quantization(name)["config_groups"].front()["targets"].size(), 14u);
  }
}

TEST_F(CompressedTensors, SayWhatIsRoundedAndListWhatTheyCannotSay) {
  make("even", "mxfp4", {"--precision.activations=mxfp4 rule=even"});
  Json group = quantization("even")["config_groups"]["mxfp4-activations"];
  EXPECT_FALSE(says("compressed-tensors does not say"));
  EXPECT_EQ(group["input_activations"]["dynamic"], true);
  EXPECT_EQ(group["input_activations"]["group_size"], 32);
  make("nv", "nvfp4", {"--precision.activations=nvfp4"});
  EXPECT_TRUE(says("compressed-tensors does not say in which formats the run rounds activations: nvfp4"));
  EXPECT_FALSE(quantization("nv")["config_groups"]["nvfp4"].contains("input_activations"));
  make("mixed", "mxfp4",
       {"--precision.rules=[{layers=\"*.down\", slots=[\"*.w\"], format=\"nvfp4\"},"
        " {layers=\"*.gate_up\", slots=[\"*.w\"], format=\"mxfp6\"}]"});
  EXPECT_TRUE(says("blocks.0.mlp.gate_up.weight: rows of 64 in mxfp6 have no codes there; they are in F32"));
  EXPECT_EQ(quantization("mixed")["format"], "mixed-precision");
  EXPECT_EQ(quantization("mixed")["config_groups"]["nvfp4"]["targets"],
            Json({"model.layers.0.mlp.down_proj", "model.layers.1.mlp.down_proj"}));
  EXPECT_EQ(run({"export", "runs/even", "--to", "compressed-tensors", "-o", "bf16"}), 0) << output_;
  EXPECT_EQ(SafetensorsFile(folder_ / "bf16/model.safetensors").at("model.norm.weight").type,
            TensorType::bf16);
}

TEST_F(CompressedTensors, RefuseModelsWithoutSuchCodes) {
  const auto refused = [&](const std::string& name, const std::vector<std::string>& more, const char* text) {
    std::vector<std::string> words{"export", "runs/" + name, "--to", "compressed-tensors", "-o", "x"};
    words.insert(words.end(), more.begin(), more.end());
    EXPECT_EQ(run(words), int(ExitCode::usage)) << output_;
    EXPECT_TRUE(says(text));
    EXPECT_FALSE(std::filesystem::exists(folder_ / "x"));
  };
  train("gpt2", "mxfp4", false);
  refused("gpt2", {}, "GPT-2 has no linear layers in transformers, so no codes; want --to gguf");
  train("six", "mxfp6", true);
  refused("six", {}, "no rounded weights have codes of MXFP4 or NVFP4; want --to hf");
  train("four", "mxfp4", true);
  refused("four", {"--weights", "master"}, "no rounded weights have codes of MXFP4 or NVFP4; want --to hf");
}

TEST_F(CompressedTensors, TransformersHasTheLogitsOfTheNumbersThatTheCodesStandFor) {
  if (!python_has("torch, transformers, compressed_tensors"))
    GTEST_SKIP() << python()
                 << " has no torch, transformers, compressed_tensors; MXTAPE_PYTHON names one that has";
  for (const Case& c : cases) {
    SCOPED_TRACE(c.name);
    make(c.name, c.weights);
    const Json got =
        Json::parse(printed("check_compressed_tensors.py", std::string(c.name) + " " + c.name + "-f32"));
    EXPECT_EQ(got["packed"], 14);
    // The package decompresses NVFP4 in bf16: the scale over its divisor and the product are rounded.
    const bool exact = c.format[0] == 'm';
    EXPECT_LE(got["weights"], exact ? 0 : 0x1p-8);
    if (!exact) continue;
    EXPECT_EQ(got["logits"], 0);
    EXPECT_EQ(got["logits_bf16"], 0);
  }
}

}  // namespace
}  // namespace mxtape::test
