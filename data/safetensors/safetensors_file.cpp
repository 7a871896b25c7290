#include "data/safetensors/safetensors_file.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "core/bf16.h"
#include "core/files/in_file.h"
#include "data/half.h"
#include "data/stand_in.h"

namespace mxtape {
namespace {

static_assert(std::endian::native == std::endian::little, "numbers are read as the file has them");

constexpr std::uint64_t length_bytes = 8;

std::uint64_t header_length(const RandomAccessFile& file) {
  const std::string path = file.path().string(), first = file.beginning(512);
  require_no_stand_in(file.path(), first, file.size());
  const bool pickle =
      first.starts_with("PK\x03\x04") || first.starts_with("\x80\x02") || first.starts_with("\x80\x04");
  require(!pickle, ExitCode::data, "{}: a file of torch.save() (pickle, which runs code); want safetensors",
          path);
  require(file.size() >= length_bytes, ExitCode::data, "{}: {} bytes; want 8 with the header's length first",
          path, file.size());
  std::uint64_t length = 0;
  std::memcpy(&length, first.data(), length_bytes);
  require(length <= file.size() - length_bytes, ExitCode::data,
          "{}: its first 8 bytes give a header of {} bytes; {} follow", path, length,
          file.size() - length_bytes);
  require(length <= largest_header, ExitCode::data, "{}: a header of {} bytes; want at most {}", path, length,
          largest_header);
  return length;
}

bool is_finite(float x) { return (bits_of(x) & 0x7f800000u) != 0x7f800000u; }

/// Widens 16-bit numbers that lie at the end of the room for the f32 ones.
template <class Widen>
void widen(std::span<float> out, const Widen& to_f32) {
  const auto* const narrow =
      reinterpret_cast<const std::byte*>(out.data()) + out.size() * sizeof(std::uint16_t);
  for (std::size_t i = 0; i < out.size(); ++i) {  // element i is read before out[i] reaches its bytes
    std::uint16_t bits;
    std::memcpy(&bits, narrow + i * sizeof bits, sizeof bits);
    out[i] = to_f32(bits);
  }
}

}  // namespace

SafetensorsFile::SafetensorsFile(const std::filesystem::path& path) : file_(path) {
  const std::uint64_t length = header_length(file_);
  std::string json(std::size_t(length), '\0');
  file_.read(length_bytes, std::as_writable_bytes(std::span(json)));
  data_begin_ = length_bytes + length;
  header_ = in_file(path, [&] { return parse_safetensors_header(json, file_.size() - data_begin_); });
  for (std::size_t i = 0; i < header_.tensors.size(); ++i) index_[header_.tensors[i].name] = i;
}

const TensorInfo* SafetensorsFile::find(const std::string& name) const {
  const auto found = index_.find(name);
  return found == index_.end() ? nullptr : &header_.tensors[found->second];
}

const TensorInfo& SafetensorsFile::at(const std::string& name) const {
  const TensorInfo* const found = find(name);
  require(found != nullptr, ExitCode::data, "{}: holds no tensor '{}'", path().string(), shown_name(name));
  return *found;
}

void SafetensorsFile::require_type(const TensorInfo& tensor, bool fits, const char* wanted) const {
  require(fits, ExitCode::data, "{}: '{}' is {}; want {}", path().string(), shown_name(tensor.name),
          name_of(tensor.type), wanted);
}

std::uint64_t SafetensorsFile::place(const TensorInfo& tensor, std::uint64_t element) const {
  return data_begin_ + tensor.begin + element * bits_of(tensor.type) / 8;
}

void SafetensorsFile::read_f32(const TensorInfo& tensor, std::uint64_t first, std::span<float> out) const {
  const TensorType type = tensor.type;
  require_type(tensor, type == TensorType::f32 || type == TensorType::f16 || type == TensorType::bf16,
               "F32, F16 or BF16");
  require(first <= tensor.count() && out.size() <= tensor.count() - first,
          "safetensors: elements {} to {} of {}", first, first + out.size(), tensor.count());
  read_floats(file_, place(tensor, first), type, out, tensor.name, first);
}

void read_floats(const RandomAccessFile& file, std::uint64_t at, TensorType type, std::span<float> out,
                 const std::string& name, std::uint64_t first) {
  const auto room = std::as_writable_bytes(out);
  file.read(at, type == TensorType::f32 ? room : room.subspan(room.size() / 2));
  if (type == TensorType::f16) widen(out, f32_of_half);
  if (type == TensorType::bf16) widen(out, [](std::uint16_t bits) { return to_f32(bf16{bits}); });
  require_finite(out, file, name, first);
}

void require_finite(std::span<const float> numbers, const RandomAccessFile& file, const std::string& name,
                    std::uint64_t first) {
  bool finite = true;
  for (const float x : numbers) finite &= is_finite(x);  // no branch: vectors
  if (finite) return;
  const auto bad = std::find_if_not(numbers.begin(), numbers.end(), is_finite);
  fail(ExitCode::data, "{}: '{}' holds {} at element {}; want finite numbers", file.path().string(),
       shown_name(name), *bad, first + std::uint64_t(bad - numbers.begin()));
}

std::vector<double> SafetensorsFile::read_f64(const TensorInfo& tensor) const {
  std::vector<double> values(std::size_t(tensor.count()));
  if (tensor.type == TensorType::f64) {
    file_.read(place(tensor, 0), std::as_writable_bytes(std::span(values)));
    return values;
  }
  std::vector<float> narrow(values.size());
  read_f32(tensor, 0, narrow);
  std::copy(narrow.begin(), narrow.end(), values.begin());
  return values;
}

std::vector<std::int32_t> SafetensorsFile::read_i32(const TensorInfo& tensor) const {
  require_type(tensor, tensor.type == TensorType::i32, "I32");
  std::vector<std::int32_t> values(std::size_t(tensor.count()));
  file_.read(place(tensor, 0), std::as_writable_bytes(std::span(values)));
  return values;
}

}  // namespace mxtape
