#include <gtest/gtest.h>
#include <hdf5.h>
#include <sys/wait.h>

#include <array>
#include <cstdio>
#include <string>
#include <tuple>
#include <vector>

#include "core/error.h"
#include "core/files/atomic_file.h"
#include "data/hdf5/hdf5_library.h"
#include "data/hdf5/token_file.h"
#include "tests/support/temporary_folder.h"

namespace mxtape {
namespace {

struct Ran {
  int code = -1;
  std::string output;  ///< stdout and stderr
};

Ran run(const TemporaryFolder& folder, const std::string& arguments) {
  const std::string command =
      "cd '" + folder.path().string() + "' && '" MXTAPE_PROGRAM "' " + arguments + " 2>&1";
  Ran result;
  FILE* pipe = ::popen(command.c_str(), "r");
  std::array<char, 4096> buffer;
  while (const auto n = std::fread(buffer.data(), 1, buffer.size(), pipe))
    result.output.append(buffer.data(), n);
  const int status = ::pclose(pipe);
  if (WIFEXITED(status)) result.code = WEXITSTATUS(status);
  return result;
}

TEST(PrepareCommand, SplitsTheJoinedTextsAndNamesTheFileAfterTheFirst) {
  const TemporaryFolder folder;
  write_atomically(folder / "a.txt", std::string(60, 'x') + std::string(30, 'y'));
  write_atomically(folder / "b.txt", "0123456789");
  EXPECT_EQ(run(folder, "prepare a.txt b.txt").code, 0);
  const auto file = TokenFile::read(folder / "a.h5");
  EXPECT_EQ(file.train.count(), 90);
  EXPECT_EQ(file.validation.count(), 10);
  EXPECT_EQ(file.source, "a.txt b.txt");
  EXPECT_EQ(file.tokenizer.size(), 12);
  EXPECT_EQ(file.validation[9], 9);
  EXPECT_EQ(run(folder, "prepare a.txt --tokenizer byte --out bytes.h5 --validation 0.5").code, 0);
  EXPECT_EQ(TokenFile::read(folder / "bytes.h5").tokenizer.size(), 256);
  EXPECT_EQ(TokenFile::read(folder / "bytes.h5").validation.count(), 45);
}

TEST(PrepareCommand, WritesOverAFileOnlyIfItIsTold) {
  const TemporaryFolder folder;
  write_atomically(folder / "a.txt", std::string(60, 'x'));
  write_atomically(folder / "a.h5", "mine");
  const auto refused = run(folder, "prepare a.txt");
  EXPECT_EQ(refused.code, int(ExitCode::usage));
  EXPECT_NE(refused.output.find("a.h5: is there already; --force writes over it, or name another file"),
            std::string::npos)
      << refused.output;
  EXPECT_EQ(read_whole_text(folder / "a.h5"), "mine");
  EXPECT_EQ(run(folder, "prepare a.txt --force").code, 0);
  EXPECT_EQ(TokenFile::read(folder / "a.h5").train.count(), 54);
}

TEST(PrepareCommand, AFileForValidationIsTheWholeSplit) {
  const TemporaryFolder folder;
  write_atomically(folder / "a.txt", "abcabc");
  write_atomically(folder / "v.txt", "abz");
  ASSERT_EQ(run(folder, "prepare a.txt --validation-file v.txt").code, 0);
  const auto file = TokenFile::read(folder / "a.h5");
  EXPECT_EQ(file.tokenizer.size(), 4) << "its characters are in the vocabulary, too";
  EXPECT_EQ(file.train.count(), 6);
  EXPECT_EQ(file.validation.count(), 3);
  EXPECT_EQ(file.validation[2], 3);
  EXPECT_EQ(file.source, "a.txt v.txt");
}

TEST(PrepareCommand, TakesTokenIdsOfOtherProgramsAndSaysWhatItFound) {
  const TemporaryFolder folder;
  const auto ids = [](std::initializer_list<int> numbers) {
    std::string bytes;
    for (const int n : numbers) bytes += {char(n & 255), char(n >> 8)};
    return bytes;
  };
  write_atomically(folder / "train.bin", ids({464, 3290, 318, 50256, 0, 1, 2, 3, 4, 5}));
  std::string shard = ids({55432, 308, 1, 0, 2, 0});  // magic, version and count of llm.c's header
  shard.resize(1024);
  write_atomically(folder / "shard.bin", shard + ids({7, 8}));
  write_atomically(folder / "val.bin", ids({9, 10}));
  const auto shared = run(folder, "prepare train.bin --tokens u16 --vocabulary 50257 --validation 0.2");
  ASSERT_EQ(shared.code, 0) << shared.output;
  EXPECT_NE(shared.output.find("read       train.bin (10 u16 ids, no header)"), std::string::npos);
  EXPECT_NE(shared.output.find("vocabulary 50257 ids; the largest found is 50256"), std::string::npos);
  EXPECT_EQ(TokenFile::read(folder / "train.h5").train.count(), 8);

  const auto given =
      run(folder,
          "prepare --tokens u16 train.bin shard.bin --validation-file val.bin --vocabulary 50257 --out b.h5");
  ASSERT_EQ(given.code, 0) << given.output;
  EXPECT_NE(given.output.find("read       shard.bin (2 u16 ids, llm.c's header)"), std::string::npos)
      << given.output;
  const auto file = TokenFile::read(folder / "b.h5");
  EXPECT_EQ(file.train.in_memory().narrow,
            (std::vector<std::uint16_t>{464, 3290, 318, 50256, 0, 1, 2, 3, 4, 5, 7, 8}));
  EXPECT_EQ(file.validation.in_memory().narrow, (std::vector<std::uint16_t>{9, 10}));
  EXPECT_EQ(file.tokenizer.to_json(), R"({"kind":"ids","vocabulary":50257})");
  EXPECT_EQ(file.source, "train.bin shard.bin val.bin");
}

TEST(PrepareCommand, BadInputGivesOneMessageAnExitCodeAndNoFile) {
  const TemporaryFolder folder;
  write_atomically(folder / "good.txt", std::string(100, 'x'));
  write_atomically(folder / "empty.txt", "");
  write_atomically(folder / "short.txt", "ab");
  write_atomically(folder / "latin1.txt", "caf\xe9");
  std::filesystem::create_symlink("good.txt", folder / "link.txt");
  write_atomically(folder / "ids.bin", "abcdef");
  const auto before = folder.names();
  for (const auto& [arguments, code, message] :
       {std::tuple("missing.txt", ExitCode::data, "missing.txt: cannot open: No such file or directory"),
        {".", ExitCode::data, ".: is a folder, want a file"},
        {"good.txt empty.txt", ExitCode::data, "empty.txt: is empty, want text"},
        {"latin1.txt", ExitCode::data, "latin1.txt: byte 3 (0xe9) is not UTF-8"},
        {"short.txt", ExitCode::data, "short.txt: 1 tokens for training and 1 for validation"},
        {"good.txt --out /proc/no/a.h5", ExitCode::resource, "a.h5: cannot make folder /proc/no"},
        {"good.txt --tokenizer bpe", ExitCode::usage, "'bpe': want char, byte, or a folder or file"},
        {"good.txt --validation 0", ExitCode::usage, "--validation"},
        {"good.txt --validation nan", ExitCode::usage, "'nan', want a number from 0.0001 to 0.9"},
        {"good.txt --out ./good.txt", ExitCode::usage, "this command reads or writes that file already"},
        {"good.txt link.txt --out good.txt", ExitCode::usage, "good.txt: this command"},
        {"link.txt --out good.txt", ExitCode::usage, "good.txt: this command"},
        {"good.txt --out link.txt", ExitCode::usage, "link.txt: this command"},
        {"ids.bin --tokens u16 --vocabulary 30000 --validation-file short.txt --out short.txt",
         ExitCode::usage, "short.txt: this command"},
        {"latin1.txt", ExitCode::data, "use --tokenizer byte, or --tokens for token ids"},
        {"ids.bin --tokens u16", ExitCode::usage, "--tokens wants --vocabulary N"},
        {"ids.bin --tokens u16 --vocabulary 25186", ExitCode::data, "ids.bin: id 25699 at position 1"},
        {"ids.bin --tokens u32 --vocabulary 9", ExitCode::data, "ids.bin: 6 bytes are no multiple of 4"},
        {"ids.bin --tokens u16 --vocabulary 70000", ExitCode::usage, "want u32"},
        {"ids.bin --tokens u16 --vocabulary 30000 --validation-file no.bin", ExitCode::data,
         "no.bin: cannot open"},
        {"ids.bin --tokens i32 --vocabulary 9", ExitCode::usage, "--tokens: i32 not in {u16,u32}"},
        {"ids.bin --tokens u16 --vocabulary 0", ExitCode::usage, "--vocabulary"},
        {"ids.bin --tokens u16 --vocabulary 2147483648", ExitCode::usage, "--vocabulary"},
        {"ids.bin --tokens u16 --vocabulary 9 --tokenizer byte", ExitCode::usage,
         "--tokenizer excludes --tokens"},
        {"good.txt --vocabulary 9", ExitCode::usage, "--vocabulary requires --tokens"},
        {"good.txt --validation 0.2 --validation-file short.txt", ExitCode::usage,
         "--validation excludes --validation-file"}}) {
    const auto result = run(folder, std::string("prepare ") + arguments);
    EXPECT_EQ(result.code, int(code)) << arguments;
    EXPECT_NE(result.output.find(message), std::string::npos) << result.output;
    EXPECT_EQ(folder.names(), before) << arguments;
    EXPECT_EQ(read_whole(folder / "good.txt").size(), 100u) << arguments;
  }
}

TEST(PrepareCommand, ADashIsTextFromStandardInput) {
  const TemporaryFolder folder;
  write_atomically(folder / "a.txt", "abc");
  const auto piped = [&](const std::string& arguments) { return run(folder, arguments + " < a.txt"); };
  EXPECT_EQ(piped("prepare - --out in.h5 --validation-file a.txt").code, 0);
  const auto file = TokenFile::read(folder / "in.h5");
  EXPECT_EQ(file.train.count(), 3);
  EXPECT_EQ(file.source, "standard input a.txt");
  EXPECT_EQ(run(folder, "prepare a.txt - a.txt --out three.h5 --validation-file a.txt < a.txt").code, 0);
  EXPECT_EQ(TokenFile::read(folder / "three.h5").train.count(), 9);
  const std::tuple<const char*, int, const char*> cases[] = {
      {"prepare -", 2, "want --out FILE"},
      {"prepare - - --out x.h5", 2, "standard input can be read once"},
      {"prepare - --out x.h5 --tokens u16 --vocabulary 9", 2, "standard input is for text"},
      {"prepare - --out x.h5 < /dev/null", 3, "standard input: is empty"},
      {"prepare - --out x.h5 < .", 3, "standard input: cannot be read: Is a directory"}};
  for (const auto& [arguments, code, message] : cases) {
    const Ran ran = run(folder, arguments);
    EXPECT_EQ(ran.code, code) << arguments;
    EXPECT_NE(ran.output.find(message), std::string::npos) << arguments << ": " << ran.output;
  }
  EXPECT_FALSE(std::filesystem::exists(folder / "x.h5"));
}

TEST(PrepareCommand, ATextThatIsNamedLikeItsTokenFileIsNotWrittenOver) {
  const TemporaryFolder folder;
  write_atomically(folder / "a.h5", "a text, whatever its name");
  EXPECT_EQ(run(folder, "prepare a.h5").code, int(ExitCode::usage));
  EXPECT_EQ(read_whole(folder / "a.h5").size(), 25u);
}

TEST(CorpusCommand, WritesScoresAndRefuses) {
  const TemporaryFolder folder;
  ASSERT_EQ(run(folder, "corpus --tales 20 --seed 3 --text a.txt --out a.h5").code, 0);
  const auto bytes = read_whole(folder / "a.txt");
  const std::string text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  const auto file = TokenFile::read(folder / "a.h5");
  EXPECT_EQ(file.train.count() + file.validation.count(), std::int64_t(text.size()));
  EXPECT_EQ(file.source, "mxtape corpus --seed 3 --tales 20");
  EXPECT_EQ(run(folder, "corpus --tales 20 --seed 3").output, text);
  const auto scored = run(folder, "corpus --score a.txt");
  EXPECT_EQ(scored.code, 0);
  EXPECT_NE(scored.output.find(fmt::format("20 tales, {} characters", text.size())), std::string::npos);
  EXPECT_EQ(run(folder, "corpus --score - < a.txt").output, "standard input" + scored.output.substr(5));

  // A split has a tale at least, so that a file has two, and --help says so.
  EXPECT_NE(run(folder, "corpus --characters 1 --text two.txt").output.find("all        2 tales,"),
            std::string::npos);
  EXPECT_NE(run(folder, "corpus --help").output.find("two or more"), std::string::npos);
  std::filesystem::remove(folder / "two.txt");
  write_atomically(folder / "b.txt", text + "and then");
  const auto refused = run(folder, "corpus --score b.txt");
  EXPECT_EQ(refused.code, int(ExitCode::data));
  EXPECT_NE(refused.output.find(fmt::format("b.txt: character {}", text.size())), std::string::npos)
      << refused.output;
  EXPECT_EQ(run(folder, "corpus --score a.txt --tales 3").code, int(ExitCode::usage));
  EXPECT_EQ(run(folder, "corpus --tales 1 --out c.h5").code, int(ExitCode::usage));
  EXPECT_EQ(run(folder, "corpus --characters 100").code, int(ExitCode::usage));
  EXPECT_EQ(run(folder, "corpus --tales 9 --out c.h5 --text ./c.h5").code, int(ExitCode::usage));
  EXPECT_EQ(run(folder, "corpus --tales 9 --out c.h5 --validation nan").code, int(ExitCode::usage));
  EXPECT_EQ(folder.names(), (std::vector<std::string>{"a.h5", "a.txt", "b.txt"}));

  for (const std::string words :
       {"corpus --tales 9 --out a.h5", "corpus --tales 9 --out new.h5 --text a.txt"}) {
    const auto kept = run(folder, words);
    EXPECT_EQ(kept.code, int(ExitCode::usage)) << words;
    EXPECT_NE(kept.output.find(": is there already; --force writes over it"), std::string::npos)
        << kept.output;
    EXPECT_EQ(read_whole(folder / "a.txt"), bytes) << words;
    EXPECT_EQ(folder.names(), (std::vector<std::string>{"a.h5", "a.txt", "b.txt"})) << words;
  }
  EXPECT_EQ(run(folder, "corpus --tales 9 --out a.h5 --force").code, 0);
  EXPECT_EQ(TokenFile::read(folder / "a.h5").source, "mxtape corpus --seed 1 --tales 9");
}

#ifndef __SANITIZE_ADDRESS__  // which ends the process
// Nothing of it lies in the file: what is not written is read as zeros.
TEST(CompareCommand, ADatasetLargerThanTheMemoryIsNamed) {
  const TemporaryFolder folder;
  hdf5::prepare_library();
  const hid_t file = H5Fcreate((folder / "x.h5").c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
  const hsize_t extent = hsize_t{1} << 46;
  const hid_t space = H5Screate_simple(1, &extent, nullptr);
  const hid_t set = H5Dcreate2(file, "x", H5T_NATIVE_FLOAT, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
  EXPECT_GE(H5Dclose(set), 0);
  H5Sclose(space), H5Fclose(file);
  const Ran compared = run(folder, "compare x.h5:/x");
  EXPECT_EQ(compared.code, int(ExitCode::resource));
  EXPECT_EQ(compared.output, "mxtape: x.h5:/x: the tensor is larger than the memory that can be had\n");
}
#endif

}  // namespace
}  // namespace mxtape
