#pragma once
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <map>
#include <span>
#include <string>
#include <string_view>

namespace mxtape {

/// A TensorBoard event file: TFRecord frames (length, masked CRC-32C of the length, data, masked CRC-32C of
/// the data) that hold protocol-buffer Event messages with one scalar, histogram or text each. `tensorboard
/// --logdir runs` shows it.
class EventFile {
 public:
  /// Opens `path`, or makes it. Of an older file the records up to `last_step` stay; later ones and a torn
  /// end are cut off, so that no step appears twice after a resume. Throws Error(resource).
  EventFile(std::filesystem::path path, std::int64_t last_step);

  /// `wall_time` in seconds since 1970.
  void scalar(std::string_view tag, std::int64_t step, double value, double wall_time);
  /// Counts by floor(log2): each in a bucket from 2^exponent to 2^(exponent + 1). Nothing is written if there
  /// are none.
  void histogram(std::string_view tag, std::int64_t step, const std::map<int, std::int64_t>& by_exponent,
                 double wall_time);
  /// `markdown`, as TensorBoard's text page shows it. Nothing is written if it is the last text that the file
  /// holds, of whatever tag.
  void text(std::string_view tag, std::int64_t step, std::string_view markdown, double wall_time);
  /// Hands everything to the operating system. Throws Error(resource) if that fails.
  void flush();

 private:
  void record(const std::string& event);
  /// Cuts the file before the first record that is torn, altered, or later than `last_step`.
  void cut_after(std::int64_t last_step);

  std::filesystem::path path_;
  std::ofstream out_;
  std::string last_text_;  ///< the Summary message
};

/// One frame of a TFRecord file, found at the front of `bytes`.
struct TfRecord {
  std::span<const std::uint8_t> data;  ///< empty and size 0: the frame is torn or a CRC does not fit
  std::size_t size = 0;                ///< of the whole frame
};
TfRecord first_record(std::span<const std::uint8_t> bytes);

/// The step of an Event message; 0 if it has none, as the first record of a file.
std::int64_t step_of_event(std::span<const std::uint8_t> event);

/// The time of an event.
double seconds_since_1970();

}  // namespace mxtape
