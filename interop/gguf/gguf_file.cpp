#include <algorithm>
#include <cmath>
#include <cstring>

#include "core/error.h"
#include "data/safetensors/header.h"
#include "interop/gguf/format.h"

namespace mxtape {
namespace {

constexpr std::uint8_t value_bytes[] = {1, 1, 2, 2, 4, 4, 4, 1, 8, 0, 8, 8, 8};  // of a text its length

/// Takes what a header says off its front.
struct Taker {
  std::string_view left;
  const std::string where;

  std::string_view bytes(std::uint64_t count) {
    require(count <= left.size(), ExitCode::data, "{}: its header ends {} bytes early", where,
            count - left.size());
    const auto taken = left.substr(0, std::size_t(count));
    return left.remove_prefix(taken.size()), taken;
  }
  template <class T>
  T number() {
    T value;
    return std::memcpy(&value, bytes(sizeof value).data(), sizeof value), value;
  }
  std::string_view text() { return bytes(number<std::uint64_t>()); }
  GgufValue type() {
    const auto type = number<std::uint32_t>();
    require(type < std::size(value_bytes), ExitCode::data, "{}: a value of type {}", where, type);
    return GgufValue(type);
  }
  std::string_view items(GgufValue type, std::uint64_t count) {
    const std::uint64_t each = value_bytes[std::size_t(type)];
    require(each > 0 && count <= left.size() / each, ExitCode::data, "{}: an array of {} values of type {}",
            where, count, std::uint32_t(type));
    if (type != GgufValue::text) return bytes(count * each);
    std::string_view last;
    for (; count > 0; --count) last = text();
    return last;
  }
};

GgufTensor tensor_of(Taker& from, const std::string& place, std::uint64_t begin, std::uint64_t most) {
  GgufTensor tensor{.begin = begin};
  const auto axes = from.number<std::uint32_t>();
  require(axes == 1 || axes == 2, ExitCode::data, "{} has {} axes; want 1 or 2", place, axes);
  for (auto axis = axes; axis > 0; --axis)
    tensor.dims.insert(tensor.dims.begin(), from.number<std::uint64_t>());
  const auto id = from.number<std::uint32_t>();
  tensor.type = gguf_type(id);
  const auto said = from.number<std::uint64_t>();
  const std::uint64_t cols = tensor.dims.back(), rows = axes == 2 ? tensor.dims.front() : 1;
  const bool fits =
      tensor.type != std::end(gguf_types) && cols > 0 && rows > 0 && cols % tensor.type->numbers == 0 &&
      said == begin &&
      !__builtin_mul_overflow(cols / tensor.type->numbers * tensor.type->bytes, rows, &tensor.bytes) &&
      cols <= most && tensor.bytes <= most;
  require(fits, ExitCode::data,
          "{}: ggml's type {}, {}, at {}; want F32 F16 BF16 Q8_0 MXFP4 NVFP4, in whole blocks, at {}", place,
          id, shape_text(tensor.dims), said, begin);
  return tensor;
}

}  // namespace

GgufFile::GgufFile(const std::filesystem::path& path) : file_(path) {
  header_.resize(std::size_t(std::min(file_.size(), largest_header)));
  file_.read(0, std::as_writable_bytes(std::span(header_)));
  Taker from{header_, where()};
  require(from.bytes(4) == gguf_magic, ExitCode::data, "{}: is no {} file", where(), gguf_magic);
  const auto version = from.number<std::uint32_t>();
  require(version == 2 || version == 3, ExitCode::data,
          "{}: version {} of GGUF; want 2 or 3, the lowest byte first", where(), version);
  const auto tensors = from.number<std::uint64_t>(), keys = from.number<std::uint64_t>();
  for (std::uint64_t i = 0; i < keys; ++i) {
    const std::string key(from.text());
    const GgufValue type = from.type(), item = type == GgufValue::array ? from.type() : type;
    const auto bytes = from.items(item, type == GgufValue::array ? from.number<std::uint64_t>() : 1);
    require(values_.emplace(key, std::pair(type, bytes)).second, ExitCode::data, "{}: the key '{}' twice",
            where(), shown_name(key));
  }
  std::uint64_t begin = 0;
  for (std::uint64_t i = 0; i < tensors; ++i) {
    const std::string name(from.text()), place = fmt::format("{}: '{}'", where(), shown_name(name));
    const GgufTensor tensor = tensor_of(from, place, begin, file_.size() - begin);
    require(tensors_.emplace(name, tensor).second, ExitCode::data, "{} is there twice", place);
    begin = std::min(begin + gguf_aligned(tensor.bytes), file_.size());
  }
  require(number("general.alignment").value_or(32) == 32, ExitCode::data, "{}: general.alignment is not 32",
          where());
  for (auto& [name, tensor] : tensors_) tensor.begin += gguf_aligned(header_.size() - from.left.size());
}

std::optional<double> GgufFile::number(const std::string& key) const {
  const auto found = values_.find(key);
  if (found == values_.end()) return {};
  const auto [type, bytes] = found->second;
  Taker from{bytes, where()};
  if (type == GgufValue::f32) return double(from.number<float>());
  if (type == GgufValue::f64) return from.number<double>();
  if (type == GgufValue::text || type == GgufValue::array) return {};
  std::int64_t bits = 0;
  std::memcpy(&bits, bytes.data(), bytes.size());
  return double(bits);  // keys that are asked for are not below 0
}

std::string GgufFile::text(const std::string& key) const {
  const auto found = values_.find(key);
  return found == values_.end() || found->second.first != GgufValue::text ? ""
                                                                          : std::string(found->second.second);
}

std::vector<float> GgufFile::values(const std::string& name, float scale) const {
  const auto found = tensors_.find(name);
  require(found != tensors_.end(), ExitCode::data, "{}: the tensor '{}' is missing", where(), name);
  std::string blocks(std::size_t(found->second.bytes), '\0');
  file_.read(found->second.begin, std::as_writable_bytes(std::span(blocks)));
  auto values = values_of_blocks(*found->second.type, blocks);
  for (float& x : values) x *= scale;
  const auto bad = std::find_if_not(values.begin(), values.end(), [](float x) { return std::isfinite(x); });
  require(bad == values.end(), ExitCode::data, "{}: '{}' holds {} at element {}; want finite numbers",
          where(), name, *bad, bad - values.begin());
  return values;
}

}  // namespace mxtape
