#include "interop/gguf/format.h"

#include <cstring>

#include "data/byte_reader.h"
#include "data/safetensors/safetensors_file.h"

namespace mxtape {
namespace {

constexpr std::uint8_t value_bytes[] = {1, 1, 2, 2, 4, 4, 4, 1, 8, 0, 8, 8, 8};  // of a text its length

struct Taker : ByteReader {
  std::string text() { return std::string(bytes(number<std::uint64_t>())); }
  GgufValue type() {
    const auto type = number<std::uint32_t>();
    require(type < std::size(value_bytes), ExitCode::data, "{}a value of type {}", where, type);
    return GgufValue(type);
  }
  nlohmann::json value(GgufValue type) {
    if (type == GgufValue::text) return text();
    if (type == GgufValue::f32) return number<float>();
    if (type == GgufValue::f64) return number<double>();
    if (type != GgufValue::array) {  // keys that are asked for are not below 0
      const auto taken = bytes(value_bytes[std::size_t(type)]);
      std::int64_t bits = 0;
      return std::memcpy(&bits, taken.data(), taken.size()), bits;
    }
    const GgufValue item = this->type();
    const auto count = number<std::uint64_t>();
    const std::uint64_t each = value_bytes[std::size_t(item)];
    require(each > 0 && count <= left.size() / each, ExitCode::data, "{}an array of {} values of type {}",
            where, count, std::uint32_t(item));
    auto items = nlohmann::json::array();
    if (each < 4) return bytes(count * each), items;
    while (items.size() < count) items.push_back(value(item));
    return items;
  }
};

GgufTensor tensor_of(Taker& from, const std::string& place, std::uint64_t begin, std::uint64_t most) {
  GgufTensor tensor{.begin = begin};
  const auto axes = from.number<std::uint32_t>();
  require(axes == 1 || axes == 2, ExitCode::data, "{} has {} axes; want 1 or 2", place, axes);
  for (auto axis = axes; axis > 0; --axis)
    tensor.dims.insert(tensor.dims.begin(), from.number<std::uint64_t>());
  const auto id = from.number<std::uint32_t>();
  tensor.type = std::ranges::find(gguf_types, GgufType::Id(id), &GgufType::id);
  const auto said = from.number<std::uint64_t>();
  const std::uint64_t cols = tensor.dims.back(), rows = axes == 2 ? tensor.dims.front() : 1;
  require(
      tensor.type != std::end(gguf_types) && cols > 0 && rows > 0 && cols % tensor.type->numbers == 0 &&
          said == begin &&
          !__builtin_mul_overflow(cols / tensor.type->numbers * tensor.type->bytes(), rows, &tensor.bytes) &&
          cols <= most && tensor.bytes <= most,
      ExitCode::data,
      "{}: ggml's type {}, {}, at {}; want F32 F16 BF16 Q8_0 MXFP4 NVFP4, in whole blocks, at {}", place, id,
      shape_text(tensor.dims), said, begin);
  return tensor;
}

/// Where number k of a row has its block, its scale and its code, in the row's bytes.
struct Place {
  std::size_t block, scale, byte;
  int bit;
};
Place place_of(const GgufType& type, std::size_t k) {
  const std::size_t bits = std::size_t(type.quantizer.element.bits()), i = k % type.numbers,
                    block = k / type.numbers * type.bytes(), scale = i * type.scales / type.numbers,
                    codes = block + type.codes_at();
  if (bits != 4) return {block, scale, codes + i * bits / 8, 0};
  const std::size_t unit = type.numbers / type.scales, half = unit / 2, j = i % unit;
  return {block, scale, codes + i / unit * half + j % half, j < half ? 0 : 4};
}

}  // namespace

std::string blocks_of_row(const GgufType& type, const MxTensor& t, std::int64_t row) {
  const Quantizer& q = t.quantizer;
  const BlockExtent extent = block_extent(q.block, t.rows, t.cols, t.axis);
  const std::int64_t first = row / extent.rows * ((t.cols + extent.cols - 1) / extent.cols);
  CodeReader reader{t.codes.data() + row * t.cols * q.element.bits() / 8, q.element.bits()};
  std::vector<std::uint8_t> bytes(std::size_t(t.cols) / type.numbers * type.bytes());
  for (std::int64_t c = 0; c < t.cols; ++c) {
    const Place at = place_of(type, std::size_t(c));
    const float scale = load_scale(t.scales.data(), first + c / extent.cols, q).scale;
    store_scale(&bytes[at.block], std::int64_t(at.scale), type.quantizer, {0, scale * type.unit});
    bytes[at.byte] |= std::uint8_t(reader.take() << at.bit);
  }
  return {bytes.begin(), bytes.end()};
}

std::vector<float> values_of_blocks(const GgufType& type, std::string_view blocks) {
  const auto* const bytes = reinterpret_cast<const std::uint8_t*>(blocks.data());
  const ElementFormat& element = type.quantizer.element;
  std::vector<float> values(blocks.size() / type.bytes() * type.numbers);
  for (std::size_t k = 0; k < values.size(); ++k) {
    const Place at = place_of(type, k);
    std::uint32_t code = 0;
    std::memcpy(&code, bytes + at.byte, std::size_t(element.bits() + 7) / 8);
    values[k] = decode(element, code >> at.bit) *
                (load_scale(bytes + at.block, std::int64_t(at.scale), type.quantizer).scale / type.unit);
  }
  return values;
}

GgufFile::GgufFile(const std::filesystem::path& path) : file(path) {
  std::string header(std::size_t(std::min(file.size(), largest_header)), '\0');
  file.read(0, std::as_writable_bytes(std::span(header)));
  Taker from{{header, path.string() + ": "}};
  require(from.bytes(4) == gguf_magic, ExitCode::data, "{}is no {} file", from.where, gguf_magic);
  const auto version = from.number<std::uint32_t>();
  require(version == 2 || version == 3, ExitCode::data,
          "{}version {} of GGUF; want 2 or 3, the lowest byte first", from.where, version);
  const auto tensor_count = from.number<std::uint64_t>(), key_count = from.number<std::uint64_t>();
  for (std::uint64_t i = 0; i < key_count; ++i) {
    const std::string key = from.text();
    require(keys.emplace(key, from.value(from.type())).second, ExitCode::data, "{}the key '{}' twice",
            from.where, shown_name(key));
  }
  std::uint64_t begin = 0;
  for (std::uint64_t i = 0; i < tensor_count; ++i) {
    const std::string name = from.text(), place = fmt::format("{}'{}'", from.where, shown_name(name));
    const GgufTensor tensor = tensor_of(from, place, begin, file.size() - begin);
    require(tensors.emplace(name, tensor).second, ExitCode::data, "{} is there twice", place);
    begin = std::min(begin + gguf_aligned(tensor.bytes), file.size());
  }
  require(keys.value("general.alignment", nlohmann::json(32)) == 32, ExitCode::data,
          "{}general.alignment is not 32", from.where);
  for (auto& [name, tensor] : tensors) tensor.begin += gguf_aligned(header.size() - from.left.size());
}

std::string GgufFile::text(const std::string& key) const {
  const auto found = value(key);
  return found.is_string() ? found.get<std::string>() : "";
}

std::vector<float> GgufFile::values(const std::string& name) const {
  const GgufTensor& tensor = tensors.at(name);
  std::string blocks(std::size_t(tensor.bytes), '\0');
  file.read(tensor.begin, std::as_writable_bytes(std::span(blocks)));
  auto values = values_of_blocks(*tensor.type, blocks);
  const bool scaled = tensor.dims.size() == 2 && tensors.contains(scale_of_tensor(name));
  for (const float m = scaled ? this->values(scale_of_tensor(name))[0] : 1; float& x : values) x *= m;
  require_finite(values, file, name);
  return values;
}

}  // namespace mxtape
