#include "data/hdf5/hash_record.h"

#include <algorithm>
#include <cstdlib>
#include <sstream>
#include <string>

#include "core/error.h"
#include "core/files/atomic_file.h"
#include "data/content_hash.h"

namespace mxtape {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t smallest = std::uint64_t{16} << 20;  // below, hashing takes some milliseconds
constexpr std::int64_t settled_after = 2'000'000'000;        // [ns]: FAT's clock, the coarsest

/// One for each file, by whatever path it is named.
std::string place_of(const fs::path& file) {
  std::error_code none;
  return fs::weakly_canonical(fs::absolute(file), none).string();
}

/// Empty where the user has no cache.
fs::path record_of(const fs::path& file) {
  const auto variable = [](const char* name) {
    const char* const value = std::getenv(name);
    return fs::path(value ? value : "");
  };
  fs::path cache = variable("XDG_CACHE_HOME");
  if (!cache.is_absolute()) cache = variable("HOME") / ".cache";
  if (!cache.is_absolute()) return {};
  return cache / "mxtape" / "hashed" / content_hash(std::as_bytes(std::span<const char>(place_of(file))));
}

/// What a record of this file begins with.
std::string heading(const RandomAccessFile& file) {
  const FileStamp& s = file.stamp();
  return fmt::format("mxtape hashed 1\n{}\n{} {} {} {} {}\n", place_of(file.path()), s.device, s.inode,
                     s.size, s.modified, s.changed);
}

std::string hash_of_rest(const RandomAccessFile& file, const SplitRanges& splits) {
  ContentHash hash;
  std::uint64_t at = 0;
  for (const ByteRange& skipped : splits) {
    hash.add(file, at, skipped.begin);
    at = std::max(at, skipped.begin + skipped.size);  // an empty split lies nowhere
  }
  hash.add(file, at, file.size());
  return hash.digits();
}

}  // namespace

bool hashed_before(const RandomAccessFile& file) {
  const fs::path record = record_of(file.path());
  std::error_code none;
  if (record.empty() || !fs::is_regular_file(record, none)) return false;
  try {
    const std::string text = read_whole_text(record), head = heading(file);
    if (!text.starts_with(head)) return false;
    std::istringstream rest(text.substr(head.size()));
    SplitRanges splits;
    std::string hash;
    for (ByteRange& range : splits) rest >> range.begin >> range.size;
    return rest >> hash && hash == hash_of_rest(file, splits);
  } catch (const Error&) {
    return false;  // reading the file itself will say what is wrong with it
  }
}

void record_hashed(const RandomAccessFile& file, const SplitRanges& splits,
                   std::chrono::system_clock::time_point opened) {
  const FileStamp& stamp = file.stamp();
  const std::int64_t then = std::chrono::nanoseconds(opened.time_since_epoch()).count();
  const fs::path record = record_of(file.path());
  if (record.empty() || stamp.size < smallest || stamp != file.stamp_now() ||
      then - std::max(stamp.modified, stamp.changed) < settled_after)
    return;
  std::string text = heading(file);
  for (const ByteRange& range : splits) text += fmt::format("{} {}\n", range.begin, range.size);
  try {
    write_atomically(record, text + hash_of_rest(file, splits) + "\n");
  } catch (const Error&) {  // a cache: what cannot be noted is hashed again
  }
}

void forget_hashed(const fs::path& file) {
  const fs::path record = record_of(file);
  std::error_code none, error;
  if (!record.empty() && fs::is_regular_file(record, none)) fs::remove(record, error);
  require(
      !error, ExitCode::resource,
      "{}: cannot be taken away: {}; it says that {} was hashed whole, so its next start would not hash it",
      record.string(), error.message(), file.string());
}

}  // namespace mxtape
