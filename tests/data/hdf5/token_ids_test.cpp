#include "data/hdf5/token_ids.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <numeric>

#include "core/error.h"
#include "tests/support/temporary_folder.h"

namespace mxtape {
namespace {

template <class Number>
std::string bytes_of(const std::vector<Number>& numbers) {
  return {reinterpret_cast<const char*>(numbers.data()), numbers.size() * sizeof(Number)};
}

/// As llm.c's write_datafile makes them.
std::string header(std::int32_t magic, std::int32_t version, std::size_t count) {
  std::vector<std::int32_t> fields(256);
  fields[0] = magic;
  fields[1] = version;
  fields[2] = std::int32_t(count);
  return bytes_of(fields);
}

constexpr std::int32_t gpt2_magic = 20240520, llama3_magic = 20240801;
const std::vector<std::uint16_t> gpt2_ids{464, 3290, 0, 50256, 318};
const std::vector<std::uint32_t> llama3_ids{128000, 791, 0, 65536, 128255};

class TokenIds : public testing::Test {
 protected:
  std::string write(const std::string& name, const std::string& content) const {
    std::ofstream(folder_ / name, std::ios::binary) << content;  // without syncs: hundreds of files
    return (folder_ / name).string();
  }
  std::vector<std::int32_t> read(const std::vector<std::string>& files, const IdFormat& format) {
    found_.clear();
    split_ = read_ids(files, format, [&](const IdFile& file) { found_.push_back(file); });
    std::vector<std::int32_t> ids;
    for (std::int64_t i = 0; i < split_.count(); ++i) ids.push_back(split_[i]);
    return ids;
  }
  /// The error that a file of this content gives, without the folder.
  std::string refusal(const std::string& content, const IdFormat& format, ExitCode code = ExitCode::data) {
    try {
      read({write("a.bin", content)}, format);
    } catch (const Error& error) {
      EXPECT_EQ(int(error.code()), int(code)) << error.what();
      std::string text = error.what();
      const auto at = text.find(folder_.path().string());
      return at == std::string::npos ? text : text.erase(at, folder_.path().string().size() + 1);
    }
    return "";
  }

  const TemporaryFolder folder_;
  Split split_;
  std::vector<IdFile> found_;
};

TEST_F(TokenIds, ComeBackFromEachLayoutAndFromShardsOfSeveral) {
  const std::vector<std::int32_t> gpt2(gpt2_ids.begin(), gpt2_ids.end());
  const std::vector<std::int32_t> llama3(llama3_ids.begin(), llama3_ids.end());
  const std::vector<std::uint32_t> gpt2_wide(gpt2_ids.begin(), gpt2_ids.end());
  const auto raw16 = write("raw16.bin", bytes_of(gpt2_ids)), raw32 = write("raw32.bin", bytes_of(llama3_ids));
  const auto with16 = write("h16.bin", header(gpt2_magic, 1, 5) + bytes_of(gpt2_ids));
  const auto with32 = write("h32.bin", header(llama3_magic, 7, 5) + bytes_of(llama3_ids));

  EXPECT_EQ(read({raw16}, {16, 50257}), gpt2);
  EXPECT_FALSE(found_[0].header);
  EXPECT_EQ(found_[0].count, 5);
  EXPECT_EQ(found_[0].largest, 50256);
  EXPECT_EQ(read({with16}, {16, 50257}), gpt2);
  EXPECT_TRUE(found_[0].header);
  EXPECT_EQ(read({raw32}, {32, 128256}), llama3);
  EXPECT_FALSE(split_.wide.empty());
  EXPECT_EQ(read({with32}, {32, 128256}), llama3);
  EXPECT_TRUE(found_[0].header);
  EXPECT_EQ(read({write("wide.bin", bytes_of(gpt2_wide))}, {32, 50257}), gpt2);
  EXPECT_FALSE(split_.narrow.empty()) << "stored as narrow as the vocabulary allows";

  const auto joined = read({raw16, with16}, {16, 50257});
  ASSERT_EQ(joined.size(), 10u);
  EXPECT_TRUE(std::equal(gpt2.begin(), gpt2.end(), joined.begin() + 5));
  EXPECT_EQ(found_[1].path, with16);
  EXPECT_EQ(split_.narrow.capacity(), std::size_t(1024 / 2 + 10)) << "one allocation, for all files";
}

TEST_F(TokenIds, OutsideTheVocabularyAreNamedWithFileAndPosition) {
  const auto raw = bytes_of(gpt2_ids);
  EXPECT_EQ(refusal(raw, {16, 50256}),
            "a.bin: id 50256 at position 3, read as u16; the vocabulary has 50256");
  EXPECT_EQ(refusal(header(gpt2_magic, 1, 5) + raw, {16, 3290}),
            "a.bin: id 3290 at position 1, read as u16; the vocabulary has 3290")
      << "counted after the header";
  EXPECT_EQ(refusal(bytes_of(llama3_ids), {32, 128255}),
            "a.bin: id 128255 at position 4, read as u32; the vocabulary has 128255");
  EXPECT_EQ(refusal(bytes_of(std::vector<std::int32_t>{5, -1}), {32, 128255}),
            "a.bin: id 4294967295 at position 1, read as u32; the vocabulary has 128255");
}

TEST_F(TokenIds, CutFilesAreRefused) {
  const auto raw = bytes_of(llama3_ids);
  for (const std::size_t length : {1, 2, 3, 5, 17, 19})
    EXPECT_NE(refusal(raw.substr(0, length), {32, 128256}), "") << length;
  EXPECT_EQ(refusal("", {16, 50257}), "a.bin: is empty, want token ids");
  EXPECT_EQ(refusal("abc", {16, 50257}),
            "a.bin: 3 bytes are no multiple of 2: the file was cut, or holds no u16 ids");
  // With a header every length is known to be wrong, once the header's first number is there.
  const auto with = header(gpt2_magic, 1, 5) + bytes_of(gpt2_ids);
  for (std::size_t length = 4; length < with.size(); length += 2)
    EXPECT_NE(refusal(with.substr(0, length), {16, 65536}), "") << length;
  EXPECT_EQ(refusal(with + "xx", {16, 50257}),
            "a.bin: 1036 bytes; llm.c's header says 5 tokens of 16 bits, which makes 1034");
  EXPECT_EQ(refusal(header(gpt2_magic, 1, 0), {16, 50257}), "a.bin: holds a header and no token ids");
}

TEST_F(TokenIds, HeadersOfOtherKindsAreRefused) {
  const auto ids = bytes_of(gpt2_ids);
  EXPECT_EQ(refusal(header(gpt2_magic, 2, 5) + ids, {16, 50257}),
            "a.bin: llm.c's header of version 2, want 1");
  EXPECT_EQ(refusal(header(llama3_magic, 1, 5) + bytes_of(llama3_ids), {32, 128256}),
            "a.bin: llm.c's header of version 1, want 7");
  EXPECT_EQ(refusal(header(20240522, 1, 5) + ids, {16, 50257}),
            "a.bin: has llm.c's header of an evaluation file (magic 20240522), want one of tokens");
  EXPECT_EQ(refusal("\x93NUMPY\1" + ids, {16, 50257}),
            "a.bin: a file of NumPy; want ids alone, as tofile() writes them");
  EXPECT_EQ(refusal(header(gpt2_magic, 1, 5) + ids, {32, 50257}, ExitCode::usage),
            "--tokens u32: a.bin has llm.c's header of u16 tokens; want --tokens u16");
  EXPECT_EQ(refusal(header(llama3_magic, 7, 5) + bytes_of(llama3_ids), {16, 50257}, ExitCode::usage),
            "--tokens u16: a.bin has llm.c's header of u32 tokens; want --tokens u32");
}

TEST_F(TokenIds, ReadInTheWrongWidthAreRefused) {
  std::vector<std::uint32_t> wide(200);
  std::iota(wide.begin(), wide.end(), 1u);
  EXPECT_EQ(refusal(bytes_of(wide), {16, 50257}),
            "a.bin: read as u16 every second id is 0: these are u32; want --tokens u32");
  EXPECT_EQ(refusal(bytes_of(std::vector<std::uint16_t>{7, 1, 9, 1}), {32, 50257}),
            "a.bin: id 65543 at position 0, read as u32; the vocabulary has 50257");
  EXPECT_EQ(refusal(bytes_of(gpt2_ids), {16, 65537}, ExitCode::usage),
            "--tokens u16: ids of 16 bits end at 65535, the vocabulary has 65537; want u32");
  wide[199] = 65536;  // one id that needs its upper half is proof enough
  EXPECT_EQ(refusal(bytes_of(wide), {16, 50257}), "");
}

}  // namespace
}  // namespace mxtape
