#pragma once
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>

namespace mxtape {

/// A file of JSON objects, one a line, each with its `step`: the records of a run. Each line reaches the
/// operating system before add() returns; a record is there whole or not at all.
class JsonLines {
 public:
  /// Goes on after `steps_done`: later records of an earlier attempt are cut off, and those that are `stale`.
  /// A line that is no record goes to <stem>.broken.txt beside the file, and note() says so; the records
  /// around it stay. Throws Error(resource).
  JsonLines(const std::filesystem::path&, std::int64_t steps_done,
            const std::function<bool(const std::string& record)>& stale = {});
  ~JsonLines();
  JsonLines(const JsonLines&) = delete;
  JsonLines& operator=(const JsonLines&) = delete;

  /// What was found wrong with the file, for people; empty if nothing was.
  const std::string& note() const { return note_; }
  /// One record, or several with a line break between two. Records that are the last ones of the file already
  /// are not repeated: a run may begin again where it had begun.
  void add(const std::string& records);
  /// Tries again what could not be written.
  void flush();
  /// Puts the file on the disk itself.
  void sync();

 private:
  std::filesystem::path path_;
  int file_ = -1;
  std::int64_t written_ = 0;  // bytes of whole records in the file
  std::string pending_;       // records that could not be written yet
  std::string note_, last_;
};

/// The lines of `path` that are records of steps after `step`, each with its line break; "" if there is no
/// file.
std::string records_after(const std::filesystem::path& path, std::int64_t step);

}  // namespace mxtape
