#include "data/hdf5/token_file.h"

#include <gtest/gtest.h>

#include <fstream>
#include <functional>
#include <random>

#include "core/error.h"
#include "core/files/atomic_file.h"
#include "data/hdf5/hdf5.h"
#include "data/hdf5/seal.h"
#include "tests/support/temporary_folder.h"

namespace mxtape {
namespace {

TokenFile small_file() {
  TokenFile file;
  file.tokenizer = Tokenizer::from_text(Tokenizer::Kind::characters, "abcde");
  file.train = Split::from_tokens(std::vector<std::int32_t>{0, 1, 2, 3, 4, 0}, 5);
  file.validation = Split::from_tokens(std::vector<std::int32_t>{4, 3, 2}, 5);
  file.source = "by hand";
  file.floor = 0.123456789;
  file.entropy = Estimate{0.125, 0.001};
  return file;
}

/// Without the syncs of write_atomically, which take a hundred times longer.
void write_plainly(const std::filesystem::path& path, std::span<const std::byte> bytes) {
  std::ofstream(path, std::ios::binary)
      .write(reinterpret_cast<const char*>(bytes.data()), std::streamsize(bytes.size()));
}

/// The text of the data error that reading `path` gives, without the path; empty if it was read.
std::string refusal(const std::filesystem::path& path) {
  try {
    TokenFile::read(path);
  } catch (const Error& error) {
    EXPECT_EQ(int(error.code()), int(ExitCode::data)) << error.what();
    const std::string text = error.what();
    return text.starts_with(path.string()) ? text.substr(path.string().size() + 2) : text;
  }
  return "";
}

TEST(TokenFile, ComesBackWithEverythingItCarries) {
  const TemporaryFolder folder;
  const auto written = small_file();
  const auto hash = TokenFile(written).write(folder / "a.h5");
  const auto read = TokenFile::read(folder / "a.h5");
  EXPECT_EQ(read.train.in_memory().narrow, written.train.narrow);
  EXPECT_EQ(read.validation.in_memory().narrow, written.validation.narrow);
  EXPECT_EQ(read.tokenizer.to_json(), written.tokenizer.to_json());
  EXPECT_EQ(read.source, "by hand");
  EXPECT_EQ(read.floor, written.floor);
  EXPECT_EQ(read.entropy->value, 0.125);
  EXPECT_EQ(read.entropy->standard_error, 0.001);
  EXPECT_EQ(read.hash, hash);
}

TEST(TokenFile, TheHashFollowsTokensSplitsAndTokenizerButNotTheSource) {
  const TemporaryFolder folder;
  const auto hash = small_file().write(folder / "a.h5");
  auto other = small_file();
  other.source = "elsewhere";
  EXPECT_EQ(TokenFile(other).write(folder / "b.h5"), hash);
  other.train.narrow[0] = 1;
  EXPECT_NE(TokenFile(other).write(folder / "b.h5"), hash);
  other = small_file();
  std::swap(other.train, other.validation);
  EXPECT_NE(TokenFile(other).write(folder / "b.h5"), hash);
  other = small_file();
  other.tokenizer = Tokenizer::from_text(Tokenizer::Kind::characters, "vwxyz");
  EXPECT_NE(TokenFile(other).write(folder / "b.h5"), hash);
}

TEST(TokenFile, VocabulariesAbove65536AreStoredIn32Bits) {
  const TemporaryFolder folder;
  std::string characters;
  for (char32_t c = 0x10000; c < 0x10000 + 65537; ++c)
    characters += {char(0xf0 | c >> 18), char(0x80 | (c >> 12 & 63)), char(0x80 | (c >> 6 & 63)),
                   char(0x80 | (c & 63))};
  TokenFile file;
  file.tokenizer = Tokenizer::from_text(Tokenizer::Kind::characters, characters);
  ASSERT_EQ(file.tokenizer.size(), 65537);
  file.train = file.validation = Split::from_tokens(std::vector<std::int32_t>{65536, 0, 65535}, 65537);
  EXPECT_TRUE(file.train.narrow.empty());
  TokenFile(file).write(folder / "a.h5");
  EXPECT_EQ(Hdf5Reader(folder / "a.h5").info("train").type, "u32");
  EXPECT_EQ(TokenFile::read(folder / "a.h5").train[0], 65536);
  EXPECT_FALSE(Split::from_tokens(std::vector<std::int32_t>{65535}, 65536).narrow.empty());
}

TEST(TokenFile, LetsGoOfItsTokensWhereItIsGivenUpForTheFile) {
  const TemporaryFolder folder;
  auto file = small_file();
  std::move(file).write(folder / "a.h5");
  EXPECT_EQ(file.train.narrow.capacity() + file.validation.narrow.capacity(), 0u);
  EXPECT_EQ(TokenFile::read(folder / "a.h5").train.count(), 6);
}

TEST(TokenFile, TakesATailOutOfASplitOfEitherWidth) {
  for (const std::int64_t vocabulary : {100, 100'000}) {
    Split split = Split::from_tokens(std::vector<std::int32_t>{1, 2, 3, 4, 5}, vocabulary);
    const Split tail = split.take_from(3);
    EXPECT_EQ(split.count(), 3);
    EXPECT_EQ(split[2], 3);
    EXPECT_EQ(tail.count(), 2);
    EXPECT_EQ(tail[0], 4);
    EXPECT_EQ(tail.narrow.empty(), vocabulary > 65536);
    EXPECT_EQ(split.take_from(3).count(), 0);
  }
}

TEST(TokenFile, EveryTruncationIsRefused) {
  const TemporaryFolder folder;
  small_file().write(folder / "a.h5");
  for (auto length = std::filesystem::file_size(folder / "a.h5"); length-- > 0;) {
    std::filesystem::resize_file(folder / "a.h5", length);
    ASSERT_NE(refusal(folder / "a.h5"), "") << "cut to " << length;
  }
}

TEST(TokenFile, TwoThousandBitFlipsAreRefused) {
  const TemporaryFolder folder;
  small_file().write(folder / "a.h5");
  auto bytes = read_whole(folder / "a.h5");
  std::mt19937 random(1);
  for (int flip = 0; flip < 2000; ++flip) {
    const auto position = random() % bytes.size();
    const auto bit = std::byte(1u << random() % 8);
    bytes[position] ^= bit;
    write_plainly(folder / "flipped.h5", bytes);
    ASSERT_NE(refusal(folder / "flipped.h5"), "") << "byte " << position;
    bytes[position] ^= bit;
  }
  write_plainly(folder / "flipped.h5", bytes);
  EXPECT_EQ(refusal(folder / "flipped.h5"), "") << "the file without a flip is read";
}

/// Writes a sealed file that says something untrue; `change` picks what.
struct Lie {
  std::string format = "mxtape tokens";
  std::int64_t version = 1, vocabulary = 5, count = 3;
  std::string tokenizer = R"({"kind":"characters","pieces":["a","b","c","d","e"]})";
  std::string train_hash{}, hash = "0";
  std::vector<std::uint16_t> tokens{0, 1, 2};
  bool wide = false;

  std::string told(const std::filesystem::path& path) const {
    Hdf5Writer file(path);
    file.attribute("/", "format", format);
    file.attribute("/", "version", version);
    file.attribute("/", "vocabulary", vocabulary);
    file.attribute("/", "source", std::string("a lie"));
    file.attribute("/", "xxh3-128", hash);
    file.text("tokenizer", tokenizer);
    for (const char* name : {"train", "validation"}) {
      if (wide)
        file.dataset_u32(name, std::vector<std::uint32_t>(tokens.begin(), tokens.end()));
      else
        file.dataset_u16(name, tokens);
      file.attribute(name, "count", count);
      file.attribute(name, "xxh3-128",
                     train_hash.empty() ? content_hash(std::as_bytes(std::span(tokens))) : train_hash);
    }
    file.commit(Seal::yes);
    return refusal(path);
  }
};

TEST(TokenFile, EachUntruthHasItsOwnMessage) {
  const TemporaryFolder folder;
  const auto told = [&](const Lie& lie) { return lie.told(folder / "a.h5"); };
  EXPECT_EQ(told({.format = "weights"}),
            "format 'weights', want 'mxtape tokens'; `mxtape prepare` makes one from text or token ids");
  EXPECT_EQ(told({.version = 2}), "version 2, this program reads 1");
  EXPECT_EQ(told({.vocabulary = 6}), "vocabulary 6, but its tokenizer has 5 tokens");
  EXPECT_EQ(told({.tokenizer = "{}"}).substr(0, 10), "tokenizer:");
  EXPECT_EQ(told({.count = 4}), "'train' holds 3 tokens, its attribute 'count' says 4");
  EXPECT_EQ(told({.tokens = {0, 5, 2}}), "'train' has token 5 at position 1; the vocabulary has 5");
  EXPECT_EQ(told({.wide = true}),
            "dataset 'train' is u32 with 1 axes; want u16 with 1 for a vocabulary of 5");
  EXPECT_TRUE(told({.train_hash = "ab"}).ends_with("its attribute says ab")) << told({.train_hash = "ab"});
  EXPECT_TRUE(told({}).ends_with("its attribute says 0")) << told({});
}

TEST(TokenFile, OtherFilesAreRefused) {
  const TemporaryFolder folder;
  EXPECT_NE(refusal(folder / "missing.h5"), "");
  write_atomically(folder / "empty.h5", "");
  EXPECT_NE(refusal(folder / "empty.h5"), "");
  write_atomically(folder / "text.h5", std::string(1000, 'x'));
  EXPECT_NE(refusal(folder / "text.h5"), "");
  EXPECT_NE(refusal(folder.path()), "");
}

TEST(TokenFile, TokensOutsideTheVocabularyAreNotWritten) {
  const TemporaryFolder folder;
  auto file = small_file();
  file.validation.narrow[1] = 5;
  EXPECT_THROW(std::move(file).write(folder / "a.h5"), Error);
  EXPECT_TRUE(folder.names().empty());
}

}  // namespace
}  // namespace mxtape
