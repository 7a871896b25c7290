#include "data/npy.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>
#include <string>
#include <string_view>

#include "core/error.h"
#include "core/files/atomic_file.h"
#include "data/half.h"

namespace mxtape {
namespace {

constexpr std::string_view magic = "\x93NUMPY";

/// What follows "'key':" in the header, spaces removed. The header is a Python dictionary on one line.
std::string_view value_of(std::string_view header, std::string_view key, const std::string& path) {
  const std::string quoted = fmt::format("'{}':", key);
  std::size_t at = header.find(quoted);
  require(at != std::string_view::npos, ExitCode::data, "{}: .npy header without {}", path, key);
  at = header.find_first_not_of(' ', at + quoted.size());
  require(at != std::string_view::npos, ExitCode::data, "{}: .npy header ends after {}", path, key);
  return header.substr(at);
}

std::vector<std::int64_t> read_dims(std::string_view text, const std::string& path) {
  require(text.starts_with("("), ExitCode::data, "{}: .npy shape is no tuple", path);
  text = text.substr(1, text.find(')') - 1);
  std::vector<std::int64_t> dims;
  while (true) {
    text.remove_prefix(std::min(text.find_first_not_of(", "), text.size()));
    if (text.empty()) return dims;
    std::int64_t extent = -1;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), extent);
    require(error == std::errc{} && extent >= 0, ExitCode::data, "{}: .npy shape is not readable", path);
    text.remove_prefix(std::size_t(end - text.data()));
    dims.push_back(extent);
  }
}

struct Half {
  std::uint16_t bits;
  explicit operator float() const { return f32_of_half(bits); }
};

template <class T>
std::vector<float> convert(const std::byte* from, std::int64_t count, const std::string& path) {
  std::vector<float> values(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < values.size(); ++i) {
    T value;
    std::memcpy(&value, from + i * sizeof(T), sizeof(T));
    values[i] = float(value);
    if constexpr (std::is_same_v<T, double>)
      require(std::isfinite(values[i]) || !std::isfinite(value), ExitCode::data,
              "{}: holds {} at element {}; want numbers in f32's range", path, value, i);
  }
  return values;
}

struct Type {
  std::string_view code;
  std::int64_t bytes;
  std::vector<float> (*convert)(const std::byte*, std::int64_t, const std::string& path);
};
const Type types[] = {
    {"<f4", 4, convert<float>},         {"<f8", 8, convert<double>},       {"<f2", 2, convert<Half>},
    {"|i1", 1, convert<std::int8_t>},   {"<i2", 2, convert<std::int16_t>}, {"<i4", 4, convert<std::int32_t>},
    {"<i8", 8, convert<std::int64_t>},  {"|u1", 1, convert<std::uint8_t>}, {"<u2", 2, convert<std::uint16_t>},
    {"<u4", 4, convert<std::uint32_t>}, {"<u8", 8, convert<std::uint64_t>}};

}  // namespace

NpyArray read_npy(const std::filesystem::path& file) {
  const std::string path = file.string();
  const auto bytes = read_whole(file);
  const std::string_view all(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  require(all.starts_with(magic) && all.size() >= 12, ExitCode::data,
          "{}: no .npy file: the first bytes are not \\x93NUMPY", path);
  const int version = all[6];
  require(version >= 1 && version <= 3, ExitCode::data, "{}: .npy version {}, want 1 to 3", path, version);
  const std::size_t start = version == 1 ? 10 : 12;
  std::uint32_t length = 0;
  std::memcpy(&length, all.data() + 8, version == 1 ? 2 : 4);
  require(start + length <= all.size(), ExitCode::data, "{}: .npy header of {} bytes in a file of {}", path,
          length, all.size());
  const std::string_view header = all.substr(start, length);

  const std::string_view descr = value_of(header, "descr", path);
  const Type* type = nullptr;
  for (const Type& t : types)
    if (descr.size() > 5 && descr.substr(1, 3) == t.code && descr[4] == descr[0]) type = &t;
  require(type != nullptr, ExitCode::data, "{}: .npy type {}; want little-endian f2 f4 f8 or an integer type",
          path, descr.substr(0, descr.find(',')));
  require(value_of(header, "fortran_order", path).starts_with("False"), ExitCode::data,
          "{}: .npy in Fortran order; save numpy.ascontiguousarray(x)", path);

  const auto dims = read_dims(value_of(header, "shape", path), path);
  std::int64_t count = 1;
  for (const std::int64_t extent : dims)
    require(!__builtin_mul_overflow(count, extent, &count), ExitCode::data, "{}: .npy shape is too large",
            path);
  const auto left = std::int64_t(all.size() - start - length);
  require(count <= left / type->bytes && count * type->bytes == left, ExitCode::data,
          "{}: .npy of {} elements of {} bytes has {} bytes of data", path, count, type->bytes, left);
  return {dims, type->convert(bytes.data() + start + length, count, path)};
}

void write_npy(const std::filesystem::path& path, std::span<const std::int64_t> dims,
               std::span<const float> values) {
  std::string shape;
  for (const std::int64_t extent : dims) shape += fmt::format("{}, ", extent);
  std::string header = fmt::format("{{'descr': '<f4', 'fortran_order': False, 'shape': ({}), }}", shape);
  // The data starts at a multiple of 64 bytes; the header ends with a line break.
  header.append(63 - (magic.size() + 4 + header.size()) % 64, ' ') += '\n';
  std::string image(magic);
  (image += {'\x01', '\x00', char(header.size() & 0xff), char(header.size() >> 8)}) += header;
  write_parts_atomically(path, {std::as_bytes(std::span(image)), std::as_bytes(values)});
}

}  // namespace mxtape
