// GGUF files of runs, read back; and what programs that are not mxtape make of them. MXTAPE_PYTHON names a
// Python that has the packages gguf and llama-cpp-python; without them those tests are skipped.
#include "tests/program/foreign_fixture.h"

namespace mxtape::test {
namespace {

class Gguf : public ForeignTest {
 protected:
  void make(const std::string& name, const std::string& weights, bool llama) {
    train(name, weights, llama);
    ASSERT_EQ(run({"export", "runs/" + name, "--to", "gguf", "-o", name + ".gguf"}), 0) << output_;
  }
};

struct Case {
  const char *name, *weights, *types;
  bool llama;
};
const Case cases[] = {{"gpt2-mxfp4", "mxfp4 rule=even", "MXFP4:8", false},
                      {"llama-mxfp4", "mxfp4", "MXFP4:14", true},
                      {"gpt2-mxint8", "mxint8", "Q8_0:8", false},
                      {"llama-nvfp4", "nvfp4", "NVFP4:14", true},
                      {"llama-mxfp6", "mxfp6", "BF16:14", true}};

TEST_F(Gguf, AnImportHasTheNumbersThatTheForwardPassOfTheRunMultipliesBy) {
  for (const Case& c : cases) {
    SCOPED_TRACE(c.name);
    const std::string name = c.name;
    make(name, c.weights, c.llama);
    EXPECT_EQ(says("GGUF has no blocks for"), std::string(c.weights) == "mxfp6");
    ASSERT_EQ(run({"import", name + ".gguf", "-o", "models/" + name}), 0) << output_;
    ASSERT_EQ(run({"export", "models/" + name, "--to", "safetensors", "-o", "back.safetensors", "--force"}),
              0)
        << output_;
    const SafetensorsFile there(folder_ / (name + ".safetensors")), back(folder_ / "back.safetensors");
    EXPECT_GT(there.tensors().size(), 10u);
    for (const TensorInfo& tensor : there.tensors()) {
      std::vector<float> wanted(tensor.count()), found(tensor.count());
      there.read_f32(tensor, 0, wanted);
      back.read_f32(back.at(tensor.name), 0, found);
      EXPECT_EQ(found, wanted) << tensor.name;
    }
    EXPECT_EQ(run({"sample", "models/" + name, "--prompt", "the ", "--tokens", "3"}), 0) << output_;
  }
}

TEST_F(Gguf, WhatItCannotSayIsRefusedOrListed) {
  make("run", "mxfp4", false);
  EXPECT_TRUE(says("GGUF does not say in which formats the run rounds activations: mxfp4"));
  EXPECT_EQ(run({"train", "tiny.toml", "--name=erf", "--model.gelu=erf", "--train.steps=1",
                 "--schedule.warmup_steps=0"}),
            0)
      << output_;
  EXPECT_EQ(run({"export", "runs/erf", "--to", "gguf", "-o", "x.gguf"}), int(ExitCode::usage));
  EXPECT_TRUE(says("GGUF has no key for model.gelu = \"erf\"; want tanh"));
  EXPECT_EQ(run({"export", "runs/run", "--to", "gguf", "-o", "run.gguf"}), int(ExitCode::usage))
      << "is there already";
  EXPECT_EQ(
      run({"export", "runs/run", "--to", "gguf", "-o", "f16.gguf", "--weights", "master", "--dtype", "f16"}),
      0);
  EXPECT_EQ(run({"import", "f16.gguf", "-o", "models/f16"}), 0) << output_;
  EXPECT_TRUE(says("a GGUF file, F16 F32"));
}

TEST_F(Gguf, ThePackageGgufReadsTheSameNumbers) {
  if (!python_has("gguf")) GTEST_SKIP() << python() << " has no gguf; MXTAPE_PYTHON names one that has";
  for (const Case& c : cases) {
    SCOPED_TRACE(c.name);
    make(c.name, c.weights, c.llama);
    const std::string types =
        printed("check_gguf.py", std::string(c.name) + ".gguf " + c.name + ".safetensors");
    EXPECT_NE(types.find(c.types), std::string::npos) << types;
  }
}

TEST_F(Gguf, AFileOfAnotherProgramIsSampledWithItsOwnTokenizer) {
  if (!python_has("gguf")) GTEST_SKIP() << python() << " has no gguf; MXTAPE_PYTHON names one that has";
  (void)printed("write_gguf.py",
                "'" MXTAPE_SOURCE "/tests/interop/tokenizers/gpt2-style/tokenizer.json' foreign.gguf");
  ASSERT_EQ(run({"import", "foreign.gguf", "-o", "models/foreign"}), 0) << output_;
  EXPECT_TRUE(says("401 tokens, byte-level BPE")) << output_;
  const std::string text = "the world's 12 wheels";
  std::ofstream(folder_ / "text.txt") << text;
  ASSERT_EQ(
      run({"sample", "models/foreign", "--prompt", text, "--tokens", "8", "--temperature", "0", "--json"}), 0)
      << output_;
  const auto ours = nlohmann::json::parse(output_);
  if (!python_has("llama_cpp"))
    GTEST_SKIP() << python() << " has no llama-cpp-python; MXTAPE_PYTHON names one that has";
  const auto theirs = nlohmann::json::parse(printed("check_llama_cpp.py", "foreign.gguf text.txt 64 99 8"));
  EXPECT_EQ(theirs["ids"].size(), ours["prompt_tokens"].get<std::size_t>());
  EXPECT_EQ(theirs["greedy"], ours["samples"][0]["tokens"]);
}

TEST_F(Gguf, LlamaCppHasTheSameLossAndAddsTheSameTokens) {
  if (!python_has("llama_cpp"))
    GTEST_SKIP() << python() << " has no llama-cpp-python; MXTAPE_PYTHON names one that has";
  std::string text;
  while (text.size() < 400) text += "the cat sat ";
  std::ofstream(folder_ / "text.txt") << text;
  for (const bool llama : {false, true}) {
    SCOPED_TRACE(llama);
    make(llama ? "l" : "g", "mxfp4", llama);
    const std::string name = llama ? "l" : "g";
    ASSERT_EQ(
        run({"export", "runs/" + name, "--to", "gguf", "--weights", "master", "-o", "f32.gguf", "--force"}),
        0);
    ASSERT_EQ(run({"eval", "runs/" + name, "--text", "text.txt", "--precision", "f32", "--json"}), 0)
        << output_;
    const auto ours = nlohmann::json::parse(output_);
    const auto theirs = nlohmann::json::parse(
        printed("check_llama_cpp.py", "f32.gguf text.txt " + ours["window"].dump() + " 8 8"));
    EXPECT_EQ(theirs["scored"], ours["scored_tokens"]);
    // ggml takes GELU of GPT-2 from a table in f16.
    EXPECT_NEAR(theirs["loss"].get<double>(), ours["results"][0]["loss"].get<double>(), llama ? 1e-6 : 1e-4);
    ASSERT_EQ(run({"import", "f32.gguf", "-o", "models/" + name}), 0) << output_;
    ASSERT_EQ(run({"sample", "models/" + name, "--prompt", text.substr(0, 8), "--tokens", "8",
                   "--temperature", "0", "--json"}),
              0)
        << output_;
    EXPECT_EQ(nlohmann::json::parse(output_)["samples"][0]["tokens"], theirs["greedy"]);
  }
}

}  // namespace
}  // namespace mxtape::test
