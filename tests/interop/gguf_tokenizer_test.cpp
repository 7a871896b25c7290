// Tokenizers of GGUF files that hold GGUF's words alone: tokens, their types, merges, the name of a pattern.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "core/error.h"
#include "core/files/atomic_file.h"
#include "data/json/json_file.h"
#include "data/tokenizers/text/utf8.h"
#include "data/tokenizers/tokenizer_files.h"
#include "interop/export.h"
#include "interop/hf_names.h"
#include "interop/import.h"
#include "tests/support/temporary_folder.h"

namespace mxtape::test {
namespace {

namespace fs = std::filesystem;

/// A small model of zeros, else as `facts`, with a tokenizer, as a GGUF file in which `from` is `to`, of the
/// same length.
fs::path gguf_with(const TemporaryFolder& folder, const Tokenizer& tokenizer, const std::string& from,
                   const std::string& to, ModelFacts facts = {}) {
  facts.vocabulary = tokenizer.size() + 3, facts.layers = facts.heads = facts.kv_heads = 1, facts.width = 8;
  facts.head_width = 8, facts.mlp_width = 32, facts.positions = 16;
  std::map<std::string, std::int64_t> counts;
  for (const TensorPlan& plan : tensor_plan(facts)) counts[plan.ours] = plan.shape.count();
  const PrecisionPlan precision;
  std::vector<std::string> notes;
  const fs::path file = folder / "model.gguf";
  (void)export_gguf_file(
      file, facts, [&](const std::string& name) { return std::vector<float>(std::size_t(counts.at(name))); },
      tokenizer, {.codes = [](const std::string&) { return nullptr; }, .precision = &precision}, notes);
  std::string bytes = read_whole_text(file);
  EXPECT_EQ(from.size(), to.size());
  EXPECT_NE(bytes.find(from), std::string::npos) << from;
  bytes.replace(bytes.find(from), from.size(), to);
  write_atomically(file, bytes);
  return file;
}

// Without this key the file is as other programs write it.
const std::string own_key = "tokenizer.huggingface.json", other_key = "tokenizer.huggingface.none";

TEST(GgufTokenizers, TokensMergesAndTheNameOfAPatternGiveTheIdsOfTheTokenizer) {
  const TemporaryFolder folder;
  const fs::path sets = fs::path(MXTAPE_SOURCE) / "tests/interop/tokenizers";
  const auto texts = read_json_file(sets / "strings.json").at("texts");
  for (const char* const style : {"gpt2-style", "llama3-style", "qwen2-style"}) {
    SCOPED_TRACE(style);
    const Tokenizer tokenizer = read_tokenizer(sets / style);
    const ImportedModel model = open_gguf_file(gguf_with(folder, tokenizer, own_key, other_key));
    ASSERT_TRUE(model.tokenizer.has_value());
    EXPECT_EQ(model.tokenizer->size(), tokenizer.size() + 3) << "the table's padding has tokens too";
    EXPECT_EQ(model.tokenizer->template_before(), tokenizer.template_before());
    int compared = 0;
    for (const auto& json : texts) {
      const std::string text = json.is_string() ? json.get<std::string>() : "";
      if (text.empty() || to_nfc(text) != text) continue;  // GGUF does not say NFC
      ++compared;
      for (const auto specials : {SpecialTokens::text, SpecialTokens::parse})
        EXPECT_EQ(model.tokenizer->encode(text, specials), tokenizer.encode(text, specials)) << text;
      const auto ids = tokenizer.encode(text);
      EXPECT_EQ(model.tokenizer->decode(ids), tokenizer.decode(ids));
    }
    EXPECT_GT(compared, 50);
  }
}

TEST(GgufTokenizers, ASpecialTokenMayHaveTheFirstId) {
  auto rules = read_json_file(fs::path(MXTAPE_SOURCE) / "tests/interop/tokenizers/gpt2-style/tokenizer.json");
  for (auto& id : rules["model"]["vocab"]) id = id.get<int>() + 1;
  auto& special = rules["added_tokens"][0];
  special["id"] = 0;
  rules["model"]["vocab"][special["content"].get<std::string>()] = 0;
  const Tokenizer tokenizer = tokenizer_of_text("tokenizer.json", [&] { return rules.dump(); });
  const TemporaryFolder folder;
  const auto model = open_gguf_file(gguf_with(folder, tokenizer, own_key, other_key));
  ASSERT_TRUE(model.tokenizer.has_value());
  const std::string text = "a text<|endoftext|> and more";
  for (const auto specials : {SpecialTokens::text, SpecialTokens::parse})
    EXPECT_EQ(model.tokenizer->encode(text, specials), tokenizer.encode(text, specials));
  EXPECT_EQ(model.tokenizer->special("<|endoftext|>"), 0);
}

TEST(GgufTokenizers, WhatIsNotReadIsNamedAndTheModelTakesIds) {
  const TemporaryFolder folder;
  const fs::path file =
      gguf_with(folder, read_tokenizer(fs::path(MXTAPE_SOURCE) / "tests/interop/tokenizers/gpt2-style"),
                own_key, other_key);
  const std::string whole = read_whole_text(file);
  for (const auto& [from, to] :
       {std::pair<std::string, std::string>{"gpt-2", "phi-2"}, {"ggml.model", "ggml.mode."}}) {
    std::string bytes = whole;
    bytes.replace(bytes.find(from), from.size(), to);
    write_atomically(file, bytes);
    const ImportedModel model = open_gguf_file(file);
    EXPECT_FALSE(model.tokenizer.has_value());
    ASSERT_EQ(model.notes.size(), to == "phi-2" ? 1u : 0u);
    if (!model.notes.empty()) {
      EXPECT_NE(model.notes[0].find("tokenizer 'gpt2' 'phi-2' is not read from GGUF files"),
                std::string::npos)
          << model.notes[0];
    }
  }
}

TEST(GgufTokenizers, ABrokenOneIsRefusedWithTheFile) {
  const TemporaryFolder folder;
  const fs::path file =
      gguf_with(folder, read_tokenizer(fs::path(MXTAPE_SOURCE) / "tests/interop/tokenizers/llama3-style"),
                own_key, other_key);
  const std::string whole = read_whole_text(file);
  // A token twice, no merges, a BOS that there is not, and no UTF-8 in a token.
  const std::pair<std::string, std::string> broken[] = {
      {"[PAD402]", "[PAD401]"},
      {"tokenizer.ggml.merges", "tokenizer.ggml.mergers"},
      {std::string("bos_token_id\4\0\0\0\x90\1", 18), std::string("bos_token_id\4\0\0\0\x90\x7f", 18)},
      {"[PAD402]", "[PAD\xff\xff\xff]"}};
  for (const auto& [from, to] : broken) {
    SCOPED_TRACE(to);
    std::string bytes = whole;
    ASSERT_NE(bytes.find(from), std::string::npos);
    bytes.replace(bytes.find(from), from.size(), to.substr(0, from.size()));
    write_atomically(file, bytes);
    try {
      (void)open_gguf_file(file);
      ADD_FAILURE() << "taken";
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), ExitCode::data);
      EXPECT_TRUE(std::string(e.what()).starts_with(file.string())) << e.what();
    }
  }
}

TEST(GgufKeys, AFactorOfRopeWithoutATypeIsLinearAsLlamaCppHasIt) {
  const TemporaryFolder folder;
  const ModelFacts facts{
      .architecture = "llama", .bias = false, .rope_scaling = RopeScaling::linear, .rope_factor = 4};
  for (const char* key : {"rope.scaling.type", "rope.scaling.typo"}) {
    const auto model = open_gguf_file(gguf_with(folder, Tokenizer(), "rope.scaling.type", key, facts));
    EXPECT_EQ(model.facts.rope_scaling, RopeScaling::linear) << key;
    EXPECT_EQ(model.facts.rope_factor, 4) << key;
  }
}

}  // namespace
}  // namespace mxtape::test
