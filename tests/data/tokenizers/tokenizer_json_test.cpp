// What a tokenizer.json may say, also one that somebody made to break its reader.
#include <gtest/gtest.h>

#include <algorithm>
#include <ctime>
#include <nlohmann/json.hpp>

#include "core/files/atomic_file.h"
#include "data/tokenizers/bpe/byte_level.h"
#include "data/tokenizers/text/regex.h"
#include "data/tokenizers/tokenizer_files.h"
#include "tests/data/tokenizers/told.h"
#include "tests/support/temporary_folder.h"

namespace mxtape {
namespace {

using nlohmann::json;
using test::says, test::told;
using Ids = std::vector<std::int32_t>;

/// A tokenizer.json with the tokens <unk>, a, b, ab.
json small_file() {
  return {{"model",
           {{"type", "BPE"},
            {"vocab", {{"<unk>", 0}, {"a", 1}, {"b", 2}, {"ab", 3}}},
            {"merges", json::array({"a b"})},
            {"unk_token", "<unk>"}}}};
}
/// The same with a value at a path.
Tokenizer with(const std::string& path, const json& value) {
  json file = small_file();
  file[json::json_pointer(path)] = value;
  return Tokenizer::from_tokenizer_json(file.dump());
}
json replace_step(const std::string& from, const std::string& to) {
  return {{"type", "Replace"}, {"pattern", {{"String", from}}}, {"content", to}};
}

TEST(TokenizerJson, StepsThatDoubleATokenOrATextEndInAnError) {
  for (const auto& [part, list] :
       {std::pair<const char*, const char*>{"/decoder", "decoders"}, {"/normalizer", "normalizers"}}) {
    json steps = json::array();
    for (int i = 0; i < 40; ++i) steps.push_back(replace_step("a", "aa"));
    const json chain{{"type", "Sequence"}, {list, steps}};
    EXPECT_TRUE(says(told([&] { with(part, chain).encode("bab"); }), "makes more than")) << part;
    while (steps.size() < 65) steps.push_back(replace_step("x", "y"));
    EXPECT_TRUE(says(told([&] {
                       with(part, {{"type", "Sequence"}, {list, steps}});
                     }),
                     "65 steps; want at most 64"));
    EXPECT_TRUE(says(told([&] { with(part, replace_step("a", std::string(2000, 'a'))); }),
                     "content: has 2000 bytes; want at most 1024"));
  }
  EXPECT_EQ(with("/normalizer", replace_step("a", std::string(1000, 'b'))).encode("a").size(), 1000u);
}

// As Hugging Face's tokenizers do; Gemma has runs of blanks among its added tokens.
TEST(TokenizerJson, AddedTokensGoThroughTheDecoderToo) {
  json file = small_file();
  file["added_tokens"] = json::array({{{"id", 3}, {"content", "ab"}, {"special", false}}});
  file["decoder"] = replace_step("b", " ");
  EXPECT_EQ(Tokenizer::from_tokenizer_json(file.dump()).decode(Ids{3, 1}), "a a");
}

TEST(TokenizerJson, ATemplateMayNotGrowWithoutBound) {
  json file = small_file();
  json parts = json::array({{{"Sequence", {{"id", "A"}}}}});
  for (int i = 0; i < 100; ++i) parts.push_back({{"SpecialToken", {{"id", "ab"}, {"type_id", 0}}}});
  const json ids = std::vector<int>(100, 3);
  file["post_processor"] = {{"type", "TemplateProcessing"},
                            {"single", parts},
                            {"special_tokens", {{"ab", {{"id", "ab"}, {"ids", ids}, {"tokens", {"ab"}}}}}}};
  EXPECT_TRUE(says(told([&] { Tokenizer::from_tokenizer_json(file.dump()); }), "more than 1024 tokens"));
}

TEST(TokenizerJson, MetaspaceWritesOneCharacterAndOnlyOnce) {
  const json step{{"type", "Metaspace"}, {"replacement", "\u2581"}, {"prepend_scheme", "never"}};
  EXPECT_EQ(with("/pre_tokenizer", step).encode("a b"), (Ids{1, 0, 2}));
  for (const char* replacement : {"", "ab", "\u2581\u2581"}) {
    json changed = step;
    changed["replacement"] = replacement;
    for (const char* part : {"/pre_tokenizer", "/decoder"})
      EXPECT_TRUE(says(told([&] { with(part, changed); }), "want one character")) << part << replacement;
  }
  const json twice{{"type", "Sequence"}, {"pretokenizers", {step, step}}, {"decoders", {step, step}}};
  json pre = twice, decoder = twice;
  pre.erase("decoders");
  decoder.erase("pretokenizers");
  EXPECT_TRUE(says(told([&] { with("/pre_tokenizer", pre); }), "second Metaspace"));
  EXPECT_TRUE(says(told([&] { with("/decoder", decoder); }), "second Metaspace"));
}

TEST(TokenizerJson, ValuesOfAnotherTypeAndUnknownKeysAreRefusedByTheirPath) {
  const json added = {{"id", 4}, {"content", "<s>"}, {"special", true}};
  const auto token = [&](const json& normalized) {
    json tokens = json::array({added});
    tokens[0]["normalized"] = normalized;
    return with("/added_tokens", tokens);
  };
  EXPECT_TRUE(token(nullptr) == token(false)) << "null is as good as nothing";
  EXPECT_EQ(token(nullptr).hash(), with("/added_tokens", json::array({added})).hash());
  EXPECT_TRUE(says(told([&] { token("yes"); }), "added_tokens[0].normalized = \"yes\"; want true or false"));
  const json one{{"type", 1}};
  for (const auto& [part, list] : {std::pair<const char*, const char*>{"normalizer", "normalizers"},
                                   {"pre_tokenizer", "pretokenizers"},
                                   {"post_processor", "processors"},
                                   {"decoder", "decoders"}}) {
    const std::string path = std::string("/") + part, where = std::string("tokenizer.json.") + part;
    EXPECT_TRUE(says(told([&] {
                       with(path, {{"type", "Sequence"}, {list, {one}}});
                     }),
                     where + "." + list + "[0].type = 1; want a text"));
    EXPECT_TRUE(says(told([&] { with(path, one); }), where + ".type = 1; want a text"));
  }
  const json level{{"type", "ByteLevel"}, {"more", 1}}, inside{{"type", "ByteLevel"}, {"processors", {one}}};
  EXPECT_TRUE(says(told([&] { with("/post_processor", level); }), "the key \"more\" is not understood"));
  EXPECT_TRUE(says(told([&] { with("/post_processor", inside); }), "the key \"processors\""));
  const auto text_of = [](const json& sequence) {
    return json{{"type", "TemplateProcessing"}, {"single", {sequence}}, {"special_tokens", json::object()}};
  };
  EXPECT_EQ(told([&] {
              with("/post_processor", text_of({{"Sequence", {{"id", "A"}}}}));
            }),
            "nothing was thrown");
  EXPECT_TRUE(says(told([&] {
                     with("/post_processor", text_of({{"Sequence", {{"id", "B"}}}}));
                   }),
                   "single[0].Sequence.id = \"B\"; mxtape has A"));
  EXPECT_TRUE(says(told([&] {
                     with("/post_processor", text_of({{"Sequence", {{"id", "A"}}}, {"more", 1}}));
                   }),
                   "single[0]: the key \"more\""));
  json twice = json::array({added, added});
  twice[1]["id"] = 5;
  EXPECT_TRUE(says(told([&] { with("/added_tokens", twice); }), "[1]: '<s>' is there twice"));
  json swapped = json::array({added, added});
  swapped[0]["id"] = 5, swapped[1]["content"] = "</s>";
  EXPECT_TRUE(says(told([&] { with("/added_tokens", swapped); }), "[0]: '<s>' has id 5; want 4"))
      << "Hugging Face's tokenizers would give it 4";
}

TEST(TokenizerJson, ErrorsNameTheFile) {
  const TemporaryFolder folder;
  const auto read = [&](const char* name, const json& file) {
    write_atomically(folder / name, file.dump());
    return told([&] { read_tokenizer(folder / name); });
  };
  json file = small_file();
  file["pre_tokenizer"] = {{"type", "Sequence"}, {"pretokenizers", {{{"type", 1}}}}};
  EXPECT_TRUE(says(read("tokenizer.json", file), folder.path().string() + "/tokenizer.json: "));
  write_atomically(folder / "merges.txt", std::string_view("a b\n"));
  EXPECT_TRUE(says(read("vocab.json", nullptr), "vocab.json: is null; want an object"));
}

TEST(TokenizerJson, AFoldersOtherFilesAddNothingThatATokenizerLacks) {
  const TemporaryFolder folder;
  const auto read = [&] { return told([&] { read_tokenizer(folder.path()); }); };
  const auto write = [&](const char* name, const json& file) {
    write_atomically(folder / name, file.dump());
  };
  json bytes = json::object();
  for (int byte = 0; byte < 256; ++byte) bytes[to_stand_ins(std::string(1, char(byte)))] = byte;
  bytes["ab"] = 256;
  write("vocab.json", bytes);
  write_atomically(folder / "merges.txt", std::string_view("a b\n"));
  write("added_tokens.json", {{"ab", 256}});
  for (const json& same : {json{{"tokenizer_class", "GPT2Tokenizer"}}, json{{"add_prefix_space", nullptr}}}) {
    write("tokenizer_config.json", same);
    EXPECT_EQ(read(), "nothing was thrown") << same;
  }
  for (const json& other : {json{{"tokenizer_class", "Qwen2Tokenizer"}}, json{{"add_prefix_space", true}}}) {
    write("tokenizer_config.json", other);
    EXPECT_TRUE(says(read(), "vocab.json and merges.txt are read as GPT-2's")) << other;
  }
  write("tokenizer_config.json", {{"added_tokens_decoder", {{"300", {{"content", "<s>"}}}}}});
  EXPECT_TRUE(says(read(), "tokenizer_config.json: adds '<s>' with id 300 to a tokenizer of 257 tokens"));
  std::filesystem::remove(folder / "tokenizer_config.json");
  write("added_tokens.json", {{"<pad>", 257}});
  EXPECT_TRUE(says(read(), "added_tokens.json: adds '<pad>' with id 257 to a tokenizer of 257 tokens"));
}

TEST(TokenizerJson, DeepNestingInATokenFileIsRefusedAndNotFollowed) {
  const std::string deep = std::string(1 << 20, '[') + std::string(1 << 20, ']');
  for (const std::string& text :
       {R"({"kind":"ids","vocabulary":)" + deep + "}", R"({"kind":"tokenizer.json","file":)" + deep + "}"})
    EXPECT_TRUE(says(told([&] { Tokenizer::from_json(text); }), "tokenizer: JSON nested deeper than 20"));
}

TEST(TokenizerJson, ManyAddedTokensDoNotSlowATextDown) {
  const auto seconds = [](int tokens) {
    json added = json::array();
    for (int i = 0; i < tokens; ++i)
      added.push_back({{"id", 4 + i}, {"content", fmt::format("b{}", i)}, {"special", false}});
    const Tokenizer tokenizer = with("/added_tokens", added);
    double best = 1e30;
    for (int i = 0; i < 3; ++i) {
      const std::clock_t begin = std::clock();
      EXPECT_EQ(tokenizer.encode(std::string(20'000, 'b')).size(), 20'000u);
      best = std::min(best, double(std::clock() - begin) / CLOCKS_PER_SEC);
    }
    return best;
  };
  seconds(10);
  // 1,000 times as many: looked at one by one they would take some hundred times as long.
  EXPECT_LT(seconds(10'000), 20 * std::max(seconds(10), 1e-3));
}

TEST(TokenizerJson, TheWorkOfAPatternIsBoundedByItsTextAndNotByAMatchOrARepetition) {
  const auto seconds = [](const std::function<void()>& action) {
    const std::clock_t begin = std::clock();
    action();
    return double(std::clock() - begin) / CLOCKS_PER_SEC;
  };
  // 50 million steps and 1000 a byte, 10 ns each on a slow machine: 1.5 s. Sanitizers may take ten times
  // that.
  const std::string text(100'000, 'a');
  for (const char* pattern : {"a*a*a*a*a*b", "(?:(?!a*+b)a)+", "(?:(?:a*+c)?a)+"}) {
    const Regex regex(pattern);
    const auto match = [&] {
      EXPECT_TRUE(says(told([&] { regex.match(text, 0); }), "takes more steps than"));
    };
    EXPECT_LT(seconds(match), 20) << pattern;
  }
  const json split{
      {"type", "Split"}, {"pattern", {{"Regex", "a+b"}}}, {"behavior", "Isolated"}, {"invert", false}};
  const Tokenizer tokenizer = with("/pre_tokenizer", split);
  EXPECT_EQ(tokenizer.encode(std::string(1000, 'a')).size(), 1000u);
  EXPECT_LT(
      seconds([&] { EXPECT_TRUE(says(told([&] { tokenizer.encode(text); }), "takes more steps than")); }), 20)
      << "each match takes few steps, all of them many";
  EXPECT_EQ(Regex("a+").match(std::string(80'000'000, 'a'), 0), 80'000'000u) << "a long word is no such text";
}

TEST(TokenizerJson, AByteLevelStepWithoutItsFlagsIsKeptAsItWasRead) {
  json vocabulary = json::object();
  for (int b = 0; b < 256; ++b) vocabulary[to_stand_ins(std::string(1, char(b)))] = b;
  const json file{{"pre_tokenizer", {{"type", "ByteLevel"}}},
                  {"decoder", {{"type", "ByteLevel"}}},
                  {"model", {{"vocab", vocabulary}, {"merges", json::array()}}}};
  const auto tokenizer = Tokenizer::from_tokenizer_json(file.dump());
  EXPECT_EQ(tokenizer.encode("a"), (Ids{' ', 'a'})) << "add_prefix_space is true where it is not there";
  EXPECT_EQ(Tokenizer::from_json(tokenizer.to_json()).encode("a"), (Ids{' ', 'a'}));
}

TEST(TokenizerJson, ALongTextIsNotCutAtABlankThatTheNormalizerChanges) {
  json vocabulary = json::object();
  for (int b = 0; b < 256; ++b) vocabulary[to_stand_ins(std::string(1, char(b)))] = b;
  vocabulary["ax"] = 256;
  const json file{{"normalizer", replace_step(" ", "x")},
                  {"pre_tokenizer", {{"type", "ByteLevel"}, {"add_prefix_space", false}}},
                  {"model", {{"vocab", vocabulary}, {"merges", json::array({"a x"})}}}};
  const auto tokenizer = Tokenizer::from_tokenizer_json(file.dump());
  std::string text;
  while (text.size() < 300'000) text += "a ";
  EXPECT_EQ(tokenizer.encode(text), Ids(text.size() / 2, 256));
}

}  // namespace
}  // namespace mxtape
