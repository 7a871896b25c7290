#include <gtest/gtest.h>
#include <hdf5.h>
#include <sys/stat.h>

#include <chrono>
#include <cstdlib>
#include <fstream>
#include <numeric>
#include <thread>

#include "core/error.h"
#include "core/files/atomic_file.h"
#include "data/hdf5/hash_record.h"
#include "data/hdf5/seal.h"
#include "data/hdf5/token_file.h"
#include "data/loader.h"
#include "tests/support/temporary_folder.h"

namespace mxtape {
namespace {

namespace fs = std::filesystem;

/// `n` tokens of a vocabulary, in the file as in memory.
TokenFile counting_file(std::int64_t n, std::int64_t vocabulary) {
  TokenFile file;
  file.tokenizer = Tokenizer::of_ids(vocabulary);
  std::vector<std::int32_t> tokens(static_cast<std::size_t>(n));
  for (std::int64_t i = 0; i < n; ++i) tokens[std::size_t(i)] = std::int32_t(i * 7919 % vocabulary);
  file.train = Split::from_tokens(tokens, vocabulary);
  file.validation = Split::from_tokens(std::span(tokens).first(std::size_t(n / 10)), vocabulary);
  return file;
}

std::string message(const std::function<void()>& what) {
  try {
    what();
  } catch (const Error& e) {
    EXPECT_EQ(int(e.code()), int(ExitCode::data)) << e.what();
    return e.what();
  }
  return "";
}

TEST(StoredTokens, GiveTheBatchesOfTokensInMemory) {
  const TemporaryFolder folder;
  for (const std::int64_t vocabulary : {50257, 65536, 65537, 128256}) {
    const TokenFile memory = counting_file(5000, vocabulary);
    TokenFile(memory).write(folder / "a.h5");
    const TokenFile stored = TokenFile::read(folder / "a.h5");
    EXPECT_EQ(stored.train.bytes_in_memory() + stored.validation.bytes_in_memory(), 0);
    for (const std::uint32_t step : {0, 1, 1000}) {
      const Batch a = Loader(memory.train, 4, 64, 3).at(step), b = Loader(stored.train, 4, 64, 3).at(step);
      EXPECT_EQ(a.inputs, b.inputs) << vocabulary;
      EXPECT_EQ(a.targets, b.targets) << vocabulary;
    }
    const Windows in_memory(memory.validation, 9), in_file(stored.validation, 9);
    ASSERT_EQ(in_memory.count(), in_file.count());
    EXPECT_EQ(in_memory.at(0, in_memory.count()).targets, in_file.at(0, in_file.count()).targets);
    EXPECT_EQ(TokenFile(stored).write(folder / "again.h5"), TokenFile(memory).write(folder / "a.h5"));
    EXPECT_TRUE(read_whole(folder / "again.h5") == read_whole(folder / "a.h5"));
  }
}

/// What h5repack or h5py might make of a token file, sealed.
void store_train_otherwise(const fs::path& path, bool in_chunks) {
  auto bytes = read_whole(path);
  bytes.resize(bytes.size() - seal_bytes);
  write_atomically(path, bytes);
  const auto ids = Split::from_tokens(std::vector<std::int32_t>{7, 8, 9}, 10).narrow;
  const hid_t file = H5Fopen(path.c_str(), H5F_ACC_RDWR, H5P_DEFAULT);
  const hid_t old = H5Dopen2(file, "train", H5P_DEFAULT), space = H5Dget_space(old);
  const hid_t properties = H5Pcreate(H5P_DATASET_CREATE);
  const hsize_t chunk = 2;
  if (in_chunks) H5Pset_chunk(properties, 1, &chunk);
  const hid_t made = H5Dcreate2(file, "made", in_chunks ? H5T_STD_U16LE : H5T_STD_U16BE, space, H5P_DEFAULT,
                                properties, H5P_DEFAULT);
  std::vector<std::uint16_t> tokens(static_cast<std::size_t>(H5Sget_simple_extent_npoints(space)));
  H5Dread(old, H5T_NATIVE_UINT16, H5S_ALL, H5S_ALL, H5P_DEFAULT, tokens.data());
  H5Dwrite(made, H5T_NATIVE_UINT16, H5S_ALL, H5S_ALL, H5P_DEFAULT, tokens.data());
  for (const char* name : {"count", "xxh3-128"}) {
    const hid_t from = H5Aopen(old, name, H5P_DEFAULT), type = H5Aget_type(from), shape = H5Aget_space(from);
    const hid_t to = H5Acreate2(made, name, type, shape, H5P_DEFAULT, H5P_DEFAULT);
    std::vector<char> value(H5Tget_size(type));
    H5Aread(from, type, value.data());
    H5Awrite(to, type, value.data());
    H5Aclose(from), H5Aclose(to), H5Tclose(type), H5Sclose(shape);
  }
  H5Dclose(old), H5Dclose(made), H5Sclose(space), H5Pclose(properties);
  H5Ldelete(file, "train", H5P_DEFAULT);
  H5Lmove(file, "made", file, "train", H5P_DEFAULT, H5P_DEFAULT);
  H5Fclose(file);
  bytes = read_whole(path);
  const auto seal = make_seal(bytes);
  bytes.insert(bytes.end(), seal.begin(), seal.end());
  write_atomically(path, bytes);
}

TEST(StoredTokens, ThatDoNotLieInOnePieceAreReadIntoMemory) {
  const TemporaryFolder folder;
  const TokenFile memory = counting_file(1000, 300);
  for (const bool in_chunks : {true, false}) {
    const auto hash = TokenFile(memory).write(folder / "a.h5");
    store_train_otherwise(folder / "a.h5", in_chunks);
    const TokenFile read = TokenFile::read(folder / "a.h5");
    EXPECT_EQ(read.hash, hash);
    EXPECT_EQ(read.train.narrow, memory.train.narrow);
    EXPECT_EQ(read.validation.bytes_in_memory(), 0);
  }
}

/// Puts a byte into a file, as it is.
void put(const fs::path& path, std::uint64_t at, char byte) {
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(std::streamoff(at)).put(byte);
}

TEST(StoredTokens, AFileThatIsAlteredWhileItIsInUseIsAnErrorAndNoSignal) {
  const TemporaryFolder folder;
  const fs::path path = folder / "a.h5";
  const auto write = [&] { counting_file(100'000, 1000).write(path); };
  const auto batch_after = [&](const std::function<void()>& change) {
    write();
    const TokenFile file = TokenFile::read(path);
    const Loader loader(file.train, 8, 64, 1);
    const Batch before = loader.at(0);
    change();
    return message([&] { EXPECT_EQ(loader.at(0).inputs, before.inputs); });
  };
  EXPECT_NE(batch_after([&] { fs::resize_file(path, 3000); }).find("it had "), std::string::npos);
  EXPECT_NE(batch_after([&] { put(path, fs::file_size(path), 'x'); }).find("while it was in use"),
            std::string::npos);
  EXPECT_EQ(batch_after([&] { fs::remove(path); }), "") << "its bytes are there for as long as it is open";
  EXPECT_EQ(batch_after([&] { counting_file(50, 7).write(path); }), "") << "the name leads to another file";
  EXPECT_EQ(batch_after([&] { fs::permissions(path, fs::perms::owner_read); }), "");
}

TEST(StoredTokens, AFileWhoseTimeAloneWasChangedGoesOnBeingRead) {
  const TemporaryFolder folder;
  const fs::path path = folder / "a.h5";
  counting_file(100'000, 1000).write(path);
  const TokenFile file = TokenFile::read(path);
  const Split copy = file.train;
  const auto tokens = file.train.read(500, 20);
  for (const int hours : {1, -1}) {
    fs::last_write_time(path, fs::last_write_time(path) + std::chrono::hours(hours));
    EXPECT_EQ(copy.read(500, 20), tokens);
    EXPECT_EQ(file.train.read(500, 20), tokens);
  }
  fs::last_write_time(path, fs::last_write_time(path) + std::chrono::hours(1));
  EXPECT_EQ(file.validation.read(0, 20), counting_file(100'000, 1000).validation.read(0, 20));
  // Once looked at, a later change of a byte is found, as it is before.
  put(path, file.train.stored.begin + 1001, '\x7f');
  EXPECT_NE(message([&] { (void)file.train.read(2000, 20); }).find("while it was in use"), std::string::npos);
}

/// One large file for all tests, as it has to lie for two seconds.
class HashRecord : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ = std::make_unique<TemporaryFolder>();
    counting_file(9'000'000, 1000).write(path());
    if (const char* before = std::getenv("XDG_CACHE_HOME")) before_ = before;
    ::setenv("XDG_CACHE_HOME", (*folder_ / "cache").c_str(), 1);
  }
  static void TearDownTestSuite() {
    before_.empty() ? ::unsetenv("XDG_CACHE_HOME") : ::setenv("XDG_CACHE_HOME", before_.c_str(), 1);
    folder_.reset();
  }
  static fs::path path() { return *folder_ / "large.h5"; }
  static std::optional<fs::path> record() {
    std::error_code none;
    for (const auto& entry : fs::directory_iterator(*folder_ / "cache/mxtape/hashed", none))
      return entry.path();
    return {};
  }
  static void wait() { std::this_thread::sleep_for(std::chrono::milliseconds(2100)); }
  /// As if the file had been altered by something that no clock saw: the record says what its stamp is now.
  static void pass_for_unaltered(const FileStamp& before) {
    const auto text = [](const FileStamp& s) {
      return fmt::format("{} {} {} {} {}", s.device, s.inode, s.size, s.modified, s.changed);
    };
    std::string known = read_whole_text(*record());
    const std::string stamp = text(before);
    known.replace(known.find(stamp), stamp.size(), text(RandomAccessFile(path()).stamp()));
    write_atomically(*record(), known);
  }

  static inline std::unique_ptr<TemporaryFolder> folder_;
  static inline std::string before_;
};

TEST_F(HashRecord, SparesAFileToBeHashedTwiceAndTellsWhenItWasAltered) {
  (void)TokenFile::read(path());
  EXPECT_FALSE(record()) << "a change within the same tick of the clock would not be seen";
  wait();
  const TokenFile whole = TokenFile::read(path());
  ASSERT_TRUE(record());
  const fs::path link = *folder_ / "link.h5";
  fs::create_symlink(path(), link);
  for (const fs::path& name : {path(), *folder_ / "." / "large.h5", link})
    EXPECT_TRUE(hashed_before(RandomAccessFile(name))) << name;
  const TokenFile trusted = TokenFile::read(path());
  EXPECT_EQ(trusted.hash, whole.hash);
  EXPECT_EQ(Loader(trusted.train, 4, 64, 1).at(5).inputs, Loader(whole.train, 4, 64, 1).at(5).inputs);

  // Size and time of modification kept: `changed` tells.
  const std::uint64_t at = whole.train.stored.begin + 2000;
  const auto modified = fs::last_write_time(path());
  const FileStamp before = RandomAccessFile(path()).stamp();
  char was = 0;
  RandomAccessFile(path()).read(at, std::as_writable_bytes(std::span(&was, 1)));
  put(path(), at, char(was ^ 1));
  fs::last_write_time(path(), modified);
  EXPECT_EQ(RandomAccessFile(path()).stamp().modified, before.modified);
  EXPECT_FALSE(hashed_before(RandomAccessFile(path())));
  EXPECT_NE(message([] { TokenFile::read(path()); }).find("differs from the one in its seal"),
            std::string::npos);

  // What keeps all of the stamp is found by whoever hashes, and a token outside the vocabulary by its use.
  pass_for_unaltered(before);
  EXPECT_EQ(message([] { TokenFile::read(path()); }), "") << "docs/data.md says so";
  const FileStamp then = RandomAccessFile(path()).stamp();
  put(path(), at + 1, '\x7f');
  pass_for_unaltered(then);
  EXPECT_NE(message([] { TokenFile::read(path()).train.read(990, 20); }).find("at position 1000 of a split"),
            std::string::npos);
  forget_hashed(link);
  EXPECT_NE(message([] { TokenFile::read(path()); }).find("differs from the one in its seal"),
            std::string::npos);
}

TEST_F(HashRecord, NeverShowsAlteredStructureToHdf5) {
  counting_file(9'000'000, 1000).write(path());
  wait();
  const TokenFile whole = TokenFile::read(path());
  ASSERT_TRUE(hashed_before(RandomAccessFile(path())));
  const FileStamp before = RandomAccessFile(path()).stamp();
  put(path(), whole.train.stored.begin - 1, 'x');
  pass_for_unaltered(before);
  EXPECT_FALSE(hashed_before(RandomAccessFile(path())));
  EXPECT_NE(message([] { TokenFile::read(path()); }).find("differs from the one in its seal"),
            std::string::npos);
}

TEST_F(HashRecord, IsMadeOfAFileWithAnEmptySplit) {
  for (Split TokenFile::*empty : {&TokenFile::train, &TokenFile::validation}) {
    TokenFile file = counting_file(9'000'000, 1000);
    std::swap(file.train, empty == &TokenFile::train ? file.validation : file.train);
    file.*empty = {};
    std::move(file).write(path());
    wait();
    const std::string hash = TokenFile::read(path()).hash;
    EXPECT_TRUE(hashed_before(RandomAccessFile(path())));
    EXPECT_EQ(TokenFile::read(path()).hash, hash);
    const FileStamp before = RandomAccessFile(path()).stamp();
    put(path(), fs::file_size(path()) - 1, 'x');
    pass_for_unaltered(before);
    EXPECT_FALSE(hashed_before(RandomAccessFile(path()))) << "all that is no token is hashed";
  }
}

TEST_F(HashRecord, IsLeftOutWhereThereIsNoCacheAndForSmallFiles) {
  counting_file(1000, 1000).write(*folder_ / "small.h5");
  ::setenv("XDG_CACHE_HOME", "/proc/nowhere", 1);
  EXPECT_EQ(message([] { forget_hashed(path()), TokenFile::read(*folder_ / "small.h5"); }), "");
  ::setenv("XDG_CACHE_HOME", (*folder_ / "cache").c_str(), 1);
  const RandomAccessFile small(*folder_ / "small.h5");
  record_hashed(small, {}, std::chrono::system_clock::now());
  EXPECT_FALSE(hashed_before(small));
}

}  // namespace
}  // namespace mxtape
