#include <gtest/gtest.h>

#include "core/files/atomic_file.h"
#include "data/tokenizers/tokenizer_files.h"
#include "program/records/run_folder.h"
#include "tests/program/program.h"
#include "tests/train/tiny_run.h"

namespace mxtape {
namespace {

using test::Program;

/// From a text to a tokenizer, a token file, a trained model and its samples.
class TokenizerCommandTest : public testing::Test {
 protected:
  TokenizerCommandTest() { write_atomically(folder_ / "cats.txt", std::string_view(test::tiny_text())); }
  int run(const std::vector<std::string>& arguments) {
    Program program(folder_.path(), arguments);
    const int code = program.wait();
    output_ = program.output();
    return code;
  }
  bool says(const std::string& text) const { return output_.find(text) != std::string::npos; }
  std::string hash() const { return read_tokenizer(folder_ / "tok").hash(); }
  void train_tokenizer(const std::string& vocabulary = "300") {
    ASSERT_EQ(run({"tokenizer", "train", "cats.txt", "--vocabulary", vocabulary, "--out", "tok"}), 0)
        << output_;
  }

  const TemporaryFolder folder_;
  std::string output_;
};

TEST_F(TokenizerCommandTest, TrainWritesFilesThatMeanTheSame) {
  train_tokenizer();
  EXPECT_TRUE(says("tok: tokenizer.json, vocab.json, merges.txt")) << output_;
  std::filesystem::create_directory(folder_ / "gpt2");
  for (const char* name : {"vocab.json", "merges.txt"})
    std::filesystem::copy(folder_ / "tok" / name, folder_ / "gpt2" / name);
  const Tokenizer one = read_tokenizer(folder_ / "tok"), other = read_tokenizer(folder_ / "gpt2");
  const std::string text = "the cat sees a dog. \u00fc <|endoftext|>";
  for (const auto specials : {SpecialTokens::text, SpecialTokens::parse})
    EXPECT_EQ(one.encode(text, specials), other.encode(text, specials));
  const Tokenizer merges = read_tokenizer(folder_ / "gpt2/merges.txt");
  EXPECT_EQ(one.encode(text, SpecialTokens::parse), merges.encode(text, SpecialTokens::parse))
      << "ids follow as GPT-2's";
}

TEST_F(TokenizerCommandTest, TrainMakesAFolderAndTakesNone) {
  const auto file = folder_ / "there/merges.txt";
  write_atomically(file, std::string_view("kept"));
  EXPECT_EQ(run({"tokenizer", "train", "cats.txt", "--out", "there"}), int(ExitCode::usage));
  EXPECT_TRUE(says("there: is there already; name another folder")) << output_;
  EXPECT_EQ(read_whole_text(file), "kept");
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder_ / "there"), {}), 1);
  EXPECT_EQ(run({"tokenizer", "train", "cats.txt", "--out", "cats.txt"}), int(ExitCode::usage));
  EXPECT_TRUE(says("cats.txt: is there already")) << output_;
}

TEST_F(TokenizerCommandTest, ATextThatIsTypedIsToldWhereTextsCome) {
  train_tokenizer();
  EXPECT_EQ(run({"tokenizer", "encode", "tok", "the cat"}), int(ExitCode::data));
  EXPECT_TRUE(says("the cat: no such file; what is typed comes by standard input: echo ... | ")) << output_;
}

TEST_F(TokenizerCommandTest, TrainRefusesSpecialTokensThatDoNotFitBeforeItReadsTexts) {
  const std::pair<std::vector<std::string>, const char*> cases[] = {
      {{"--special", "a"}, "--special 'a': want a text that is no token yet"},
      {{"--special", "<s>", "--special", "<s>"}, "--special '<s>': want a text that is no token yet"},
      {{"--special", "\xff"}, "--special '<0xFF>': want 1 to 1024 bytes of UTF-8"},
      {{"--special", std::string(1025, 'x')}, "want 1 to 1024 bytes of UTF-8"}};
  for (const auto& [options, want] : cases) {
    std::vector<std::string> arguments{"tokenizer", "train", "missing.txt", "--out", "tok"};
    arguments.insert(arguments.end(), options.begin(), options.end());
    EXPECT_EQ(run(arguments), int(ExitCode::usage));
    EXPECT_TRUE(says(want)) << output_;
  }
}

TEST_F(TokenizerCommandTest, EncodeAndDecodeGiveTheTextBack) {
  train_tokenizer();
  ASSERT_EQ(run({"tokenizer", "encode", "tok", "cats.txt", "--out", "cats.bin", "--tokens", "u16"}), 0)
      << output_;
  ASSERT_EQ(run({"prepare", "cats.bin", "--tokens", "u16", "--vocabulary", "300", "--out", "ids.h5"}), 0)
      << output_;
  ASSERT_EQ(run({"tokenizer", "encode", "tok", "cats.txt"}), 0);
  write_atomically(folder_ / "ids.txt", std::string_view(output_));
  ASSERT_EQ(run({"tokenizer", "decode", "tok", "ids.txt", "--out", "back.txt"}), 0) << output_;
  EXPECT_TRUE(read_whole_text(folder_ / "back.txt") == read_whole_text(folder_ / "cats.txt"));
}

TEST_F(TokenizerCommandTest, WhatDoesNotFitIsRefused) {
  train_tokenizer();
  const std::pair<std::vector<std::string>, const char*> cases[] = {
      {{"tokenizer", "encode", "tok", "cats.txt", "--vocabulary", "300"},
       "--vocabulary is for tokenizer train"},
      {{"tokenizer", "decode", "tok", "cats.txt", "--specials", "parse"},
       "--specials is for tokenizer encode"},
      {{"tokenizer", "train", "cats.txt"}, "want --out FOLDER"},
      {{"tokenizer", "encode", "tok", "a", "b"}, "want TOKENIZER [FILE]"},
      {{"tokenizer", "fit", "tok"}, "not in {train,encode,decode}"},
      {{"prepare", "cats.txt", "--tokenizer", "bpe"}, "want char, byte, or a folder or file"},
      {{"prepare", "cats.txt", "--specials", "parse"}, "finds no special tokens"}};
  for (const auto& [arguments, want] : cases) {
    EXPECT_EQ(run(arguments), int(ExitCode::usage)) << want;
    EXPECT_TRUE(says(want)) << output_;
  }
  write_atomically(folder_ / "empty.txt", std::string_view());
  EXPECT_EQ(run({"tokenizer", "train", "cats.txt", "empty.txt", "--out", "none"}), int(ExitCode::data));
  EXPECT_TRUE(says("empty.txt: is empty, want text")) << output_;
  write_atomically(folder_ / "bad.txt", std::string_view("ab\xff"));
  EXPECT_EQ(run({"tokenizer", "encode", "tok", "bad.txt"}), int(ExitCode::data));
  EXPECT_TRUE(says("bad.txt: byte 2 (0xff) is not UTF-8")) << output_;
  EXPECT_EQ(run({"prepare", "cats.txt", "--tokenizer", "."}), int(ExitCode::data));
  EXPECT_TRUE(says("no tokenizer in this folder")) << output_;
}

TEST_F(TokenizerCommandTest, NoInputIsWrittenOver) {
  train_tokenizer();
  const std::pair<std::vector<std::string>, const char*> cases[] = {
      {{"tokenizer", "encode", "tok", "cats.txt", "--out", "cats.txt", "--force"}, "cats.txt"},
      {{"tokenizer", "encode", "tok", "cats.txt", "--out", "tok/vocab.json", "--force"}, "tok/vocab.json"},
      {{"tokenizer", "decode", "tok", "cats.txt", "--out", "cats.txt", "--force"}, "cats.txt"},
      {{"prepare", "cats.txt", "--tokenizer", "tok", "--out", "tok/vocab.json", "--force"}, "tok/vocab.json"},
      {{"prepare", "cats.txt", "--tokenizer", "tok/vocab.json", "--out", "tok/merges.txt", "--force"},
       "tok/merges.txt"}};
  for (const auto& [arguments, input] : cases) {
    EXPECT_EQ(run(arguments), int(ExitCode::usage)) << input;
    EXPECT_TRUE(says(std::string(input) + ": this command reads or writes that file already")) << output_;
  }
  for (int i = 0; i < 2; ++i)  // an output of one's own
    EXPECT_EQ(run({"prepare", "cats.txt", "--tokenizer", "tok", "--out", "tok/cats.h5", "--force"}), 0)
        << output_;
  EXPECT_EQ(run({"tokenizer", "train", "cats.txt", "--out", "new", "--force"}), int(ExitCode::usage));
  ASSERT_EQ(run({"tokenizer", "encode", "tok", "cats.txt", "--out", "ids.bin"}), 0) << output_;
  EXPECT_EQ(run({"tokenizer", "encode", "tok", "cats.txt", "--out", "ids.bin"}), int(ExitCode::usage));
  EXPECT_EQ(run({"tokenizer", "encode", "tok", "cats.txt", "--out", "ids.bin", "--force"}), 0) << output_;
  EXPECT_EQ(run({"tokenizer", "encode", "tok", "cats.txt", "--tokens", "u16"}), int(ExitCode::usage));
}

TEST_F(TokenizerCommandTest, AModelIsTrainedSampledAndShownWithIt) {
  train_tokenizer();
  ASSERT_EQ(run({"prepare", "cats.txt", "--tokenizer", "tok", "--out", "cats.h5"}), 0) << output_;
  EXPECT_TRUE(says(hash())) << output_;
  EXPECT_TRUE(TokenFile::read(folder_ / "cats.h5").tokenizer == read_tokenizer(folder_ / "tok"));
  Recipe recipe = test::tiny_mxfp4_recipe(4);
  recipe.data.file = "cats.h5";
  write_atomically(folder_ / "tiny.toml", to_toml(recipe));
  ASSERT_EQ(run({"train", "tiny.toml"}), 0) << output_;
  ASSERT_EQ(run({"sample", "runs/tiny", "--prompt", "the cat", "--tokens", "20"}), 0) << output_;
  EXPECT_EQ(output_.substr(0, 7), "the cat") << output_;
  ASSERT_EQ(run({"info", "runs/tiny"}), 0);
  EXPECT_TRUE(says("byte-level BPE, hash " + hash())) << output_;
  ASSERT_EQ(run({"prepare", "cats.txt", "--tokenizer-of", "runs/tiny", "--out", "again.h5"}), 0) << output_;
  EXPECT_TRUE(TokenFile::read(folder_ / "again.h5").tokenizer == read_tokenizer(folder_ / "tok"));
}

TEST_F(TokenizerCommandTest, AVocabularyLargerThanAnAttributeOfHdf5IsKeptInCheckpoints) {
  std::string words;  // enough of them that the tokenizer takes more than 64 KiB
  for (int i = 0; i < 6000; ++i) words += " w" + std::to_string(i * 7919 % 100003);
  write_atomically(folder_ / "many.txt", std::string_view(words + words));
  ASSERT_EQ(run({"tokenizer", "train", "many.txt", "--vocabulary", "4000", "--out", "tok"}), 0) << output_;
  ASSERT_GT(read_tokenizer(folder_ / "tok").to_json().size(), 70000u);
  ASSERT_EQ(run({"prepare", "many.txt", "--tokenizer", "tok", "--out", "many.h5"}), 0) << output_;
  Recipe recipe = test::tiny_mxfp4_recipe(4);
  recipe.data.file = "many.h5";
  write_atomically(folder_ / "tiny.toml", to_toml(recipe));
  ASSERT_EQ(run({"train", "tiny.toml"}), 0) << output_;
  EXPECT_TRUE(CheckpointFile(folder_ / "runs/tiny/checkpoints/step_00000004.h5").header().tokenizer ==
              read_tokenizer(folder_ / "tok"));
  EXPECT_EQ(run({"verify", "runs/tiny"}), 0) << output_;
}

}  // namespace
}  // namespace mxtape
