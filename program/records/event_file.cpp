#include "program/records/event_file.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <vector>

#include "core/error.h"
#include "core/files/atomic_file.h"
#include "core/files/crc32c.h"
#include "data/byte_reader.h"

// Message layouts: tensorflow/core/util/event.proto (Event: 1 wall_time double, 2 step int64, 3 file_version
// string, 5 summary) and framework/summary.proto (Summary: 1 repeated value; Value: 1 tag string, 2
// simple_value float, 5 histo, 8 tensor, 9 metadata; SummaryMetadata: 1 plugin_data; PluginData: 1
// plugin_name string; HistogramProto: 1 min, 2 max, 3 num, 4 sum, 5 sum_squares, 6 repeated bucket_limit, 7
// repeated bucket, all double), framework/tensor.proto (1 dtype, 2 tensor_shape, 8 repeated string_val).
// Frames: tensorflow/core/lib/io/record_writer.h.
namespace mxtape {
namespace {

enum Wire : unsigned { varint_type = 0, fixed64_type = 1, bytes_type = 2, fixed32_type = 5 };
constexpr std::size_t length_bytes = 8, crc_bytes = 4;

void put_varint(std::string& out, std::uint64_t value) {
  for (; value >= 0x80; value >>= 7) out += char(value | 0x80);
  out += char(value);
}

void put_tag(std::string& out, unsigned field, Wire type) { put_varint(out, field << 3 | type); }

void put_bytes(std::string& out, unsigned field, std::string_view bytes) {
  put_tag(out, field, bytes_type);
  put_varint(out, bytes.size());
  out += bytes;
}

std::string event_at(double wall_time, std::int64_t step) {
  std::string event;
  put_tag(event, 1, fixed64_type);
  append_bytes(event, wall_time);
  put_tag(event, 2, varint_type);
  put_varint(event, std::uint64_t(step));
  return event;
}

std::span<const std::uint8_t> bytes_of(const std::string& text) {
  return {reinterpret_cast<const std::uint8_t*>(text.data()), text.size()};
}

std::uint64_t little_endian(std::span<const std::uint8_t> bytes) {
  std::uint64_t value = 0;
  for (std::size_t i = bytes.size(); i--;) value = value << 8 | bytes[i];
  return value;
}

/// A message of one field.
std::string message(unsigned field, std::string_view bytes) {
  std::string out;
  put_bytes(out, field, bytes);
  return out;
}

/// The SummaryMetadata of a text.
std::string text_metadata() { return message(1, message(1, "text")); }

/// text() writes the metadata last.
bool is_text(std::span<const std::uint8_t> summary) {
  return std::string_view(reinterpret_cast<const char*>(summary.data()), summary.size())
      .ends_with(message(9, text_metadata()));
}

// event_at() writes the wall time (one tag byte, eight bytes) and then the step's tag and varint.
constexpr std::size_t step_at = 9;

/// Reads a varint from the front of `bytes` and removes it.
std::uint64_t take_varint(std::span<const std::uint8_t>& bytes) {
  std::uint64_t value = 0;
  for (int shift = 0; !bytes.empty() && shift < 64; shift += 7) {
    const std::uint8_t byte = bytes.front();
    bytes = bytes.subspan(1);
    value |= std::uint64_t(byte & 0x7f) << shift;
    if (!(byte & 0x80)) break;
  }
  return value;
}

/// The Summary message of an Event, if it has one.
std::span<const std::uint8_t> summary_of_event(std::span<const std::uint8_t> event) {
  if (event.size() <= step_at || event[step_at] != (2 << 3 | varint_type)) return {};
  event = event.subspan(step_at + 1);
  take_varint(event);
  if (event.empty() || event[0] != (5 << 3 | bytes_type)) return {};
  event = event.subspan(1);
  const std::uint64_t size = take_varint(event);
  return event.first(std::min<std::uint64_t>(size, event.size()));
}

}  // namespace

TfRecord first_record(std::span<const std::uint8_t> bytes) {
  constexpr std::size_t header = length_bytes + crc_bytes;
  if (bytes.size() < header + crc_bytes) return {};
  if (little_endian(bytes.subspan(length_bytes, crc_bytes)) != masked_crc32c(bytes.first(length_bytes)))
    return {};
  const std::uint64_t length = little_endian(bytes.first(length_bytes));
  if (length > bytes.size() - header - crc_bytes) return {};
  const auto data = bytes.subspan(header, std::size_t(length));
  if (little_endian(bytes.subspan(header + data.size(), crc_bytes)) != masked_crc32c(data)) return {};
  return {data, header + data.size() + crc_bytes};
}

std::int64_t step_of_event(std::span<const std::uint8_t> event) {
  if (event.size() <= step_at || event[step_at] != (2 << 3 | varint_type)) return 0;
  event = event.subspan(step_at + 1);
  return std::int64_t(take_varint(event));
}

double seconds_since_1970() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

EventFile::EventFile(std::filesystem::path path, std::int64_t last_step) : path_(std::move(path)) {
  if (std::filesystem::exists(path_)) cut_after(last_step);
  out_.open(path_, std::ios::binary | std::ios::app);
  require(out_.good(), ExitCode::resource, "{}: cannot be written: {}", path_.string(), std::strerror(errno));
  if (std::filesystem::file_size(path_) == 0)
    record(event_at(seconds_since_1970(), 0) + message(3, "brain.Event:2"));
}

void EventFile::scalar(std::string_view tag, std::int64_t step, double value, double wall_time) {
  std::string entry;
  put_bytes(entry, 1, tag);
  put_tag(entry, 2, fixed32_type);
  append_bytes(entry, float(value));
  record(event_at(wall_time, step) + message(5, message(1, entry)));
}

void EventFile::histogram(std::string_view tag, std::int64_t step,
                          const std::map<int, std::int64_t>& by_exponent, double wall_time) {
  if (by_exponent.empty()) return;
  double count = 0, sum = 0, squares = 0;
  std::string limits, buckets;
  const auto bucket = [&](double limit, double number) {
    append_bytes(limits, limit);
    append_bytes(buckets, number);
  };
  const int first = by_exponent.begin()->first, last = by_exponent.rbegin()->first;
  bucket(std::ldexp(1.0, first), 0);  // where the first one begins
  for (int exponent = first; exponent <= last; ++exponent) {
    const auto found = by_exponent.find(exponent);
    const double number = found == by_exponent.end() ? 0 : double(found->second);
    const double value = std::ldexp(1.0, exponent);
    bucket(2 * value, number);
    count += number, sum += number * value, squares += number * value * value;
  }
  std::string histogram, entry;
  unsigned field = 0;
  for (const double number : {std::ldexp(1.0, first), std::ldexp(1.0, last), count, sum, squares}) {
    put_tag(histogram, ++field, fixed64_type);
    append_bytes(histogram, number);
  }
  put_bytes(histogram, 6, limits);  // packed
  put_bytes(histogram, 7, buckets);
  put_bytes(entry, 1, tag);
  put_bytes(entry, 5, histogram);
  record(event_at(wall_time, step) + message(5, message(1, entry)));
}

void EventFile::text(std::string_view tag, std::int64_t step, std::string_view markdown, double wall_time) {
  constexpr unsigned dt_string = 7;
  std::string tensor, entry;
  put_tag(tensor, 1, varint_type);
  put_varint(tensor, dt_string);
  put_bytes(tensor, 2, "");  // no dimensions: one text
  put_bytes(tensor, 8, markdown);
  put_bytes(entry, 1, tag);
  put_bytes(entry, 8, tensor);
  put_bytes(entry, 9, text_metadata());
  std::string summary = message(1, entry);
  if (summary == last_text_) return;
  record(event_at(wall_time, step) + message(5, summary));
  last_text_ = std::move(summary);
}

void EventFile::cut_after(std::int64_t last_step) {
  const std::vector<std::byte> content = read_whole(path_);
  const std::span bytes(reinterpret_cast<const std::uint8_t*>(content.data()), content.size());
  std::size_t kept = 0;
  for (;;) {
    const TfRecord record = first_record(bytes.subspan(kept));
    if (record.size == 0 || step_of_event(record.data) > last_step) break;
    if (const auto summary = summary_of_event(record.data); is_text(summary))
      last_text_.assign(summary.begin(), summary.end());
    kept += record.size;
  }
  std::filesystem::resize_file(path_, kept);
}

void EventFile::record(const std::string& event) {
  std::string frame;
  append_bytes(frame, std::uint64_t(event.size()));
  append_bytes(frame, masked_crc32c(bytes_of(frame)));
  frame += event;
  append_bytes(frame, masked_crc32c(bytes_of(event)));
  out_.write(frame.data(), std::streamsize(frame.size()));
}

void EventFile::flush() {
  out_.flush();
  require(out_.good(), ExitCode::resource, "{}: cannot be written: {}", path_.string(), std::strerror(errno));
}

}  // namespace mxtape
