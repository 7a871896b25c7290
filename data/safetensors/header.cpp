#include "data/safetensors/header.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <utility>

#include "core/files/in_file.h"
#include "data/json/json_file.h"
#include "data/json/json_section.h"

namespace mxtape {
namespace {

using nlohmann::json;

struct TypeRow {
  std::string_view name;
  std::uint64_t bits;
};
/// In the order of TensorType.
constexpr TypeRow types[] = {{"BOOL", 8}, {"F4", 4},      {"F6_E2M3", 6}, {"F6_E3M2", 6}, {"U8", 8},
                             {"I8", 8},   {"F8_E5M2", 8}, {"F8_E4M3", 8}, {"F8_E8M0", 8}, {"I16", 16},
                             {"U16", 16}, {"F16", 16},    {"BF16", 16},   {"I32", 32},    {"U32", 32},
                             {"F32", 32}, {"C64", 64},    {"F64", 64},    {"I64", 64},    {"U64", 64}};

std::optional<TensorType> type_named(std::string_view name) {
  const TypeRow* const found = std::ranges::find(types, name, &TypeRow::name);
  return found == std::end(types) ? std::nullopt : std::optional(TensorType(found - types));
}

std::vector<std::uint64_t> numbers(JsonSection& tensor, const std::string& key) {
  std::vector<std::uint64_t> all;
  for (const json& value : tensor.array(key)) {
    if (!value.is_number_unsigned()) tensor.wrong(key, value, "a list of whole numbers from 0 to 2^64 - 1");
    all.push_back(value.get<std::uint64_t>());
  }
  return all;
}

TensorInfo read_tensor(const std::string& name, const json& value) {
  JsonSection tensor(value, fmt::format("'{}'", shown_name(name)), ": ");
  const std::string& dtype = tensor.text("dtype");
  const auto type = type_named(dtype);
  require(type.has_value(), ExitCode::data, "{}: dtype {} is not one of safetensors'", tensor.path(),
          shown_name(dtype));
  const auto offsets = numbers(tensor, "data_offsets");
  require(offsets.size() == 2, ExitCode::data, "{}: data_offsets has {} numbers, want 2", tensor.path(),
          offsets.size());
  TensorInfo info{name, *type, numbers(tensor, "shape"), offsets[0], offsets[1]};
  tensor.done();
  return info;
}

/// Bytes of the shape; throws if that number does not fit 64 bits, or is no whole one.
std::uint64_t bytes_of(const TensorInfo& tensor) {
  std::uint64_t bits = bits_of(tensor.type);
  bool fits = true;
  // Factors of 0 first: the product of the others need not fit then.
  if (std::find(tensor.dims.begin(), tensor.dims.end(), 0u) != tensor.dims.end()) return 0;
  for (const std::uint64_t extent : tensor.dims) fits &= !__builtin_mul_overflow(bits, extent, &bits);
  require(fits, ExitCode::data, "'{}' is {}: its size does not fit 64 bits", shown_name(tensor.name),
          tensor.text());
  require(bits % 8 == 0, ExitCode::data, "'{}' is {}: no whole number of bytes", shown_name(tensor.name),
          tensor.text());
  return bits / 8;
}

/// Every byte of the data belongs to one tensor.
void require_contiguous(const std::vector<TensorInfo>& tensors, std::uint64_t data_bytes) {
  std::uint64_t at = 0;
  const TensorInfo* before = nullptr;
  for (const TensorInfo& tensor : tensors) {
    require(tensor.begin <= tensor.end && tensor.end <= data_bytes, ExitCode::data,
            "'{}': data_offsets are [{}, {}]; {} bytes follow the header", shown_name(tensor.name),
            tensor.begin, tensor.end, data_bytes);
    require(tensor.begin == at, ExitCode::data, "'{}' begins at byte {} of the data; {} ends at {}",
            shown_name(tensor.name), tensor.begin,
            before ? fmt::format("'{}'", shown_name(before->name)) : "the header", at);
    const std::uint64_t bytes = bytes_of(tensor);
    require(bytes == tensor.end - tensor.begin, ExitCode::data,
            "'{}' is {}: {} bytes; its data_offsets say {}", shown_name(tensor.name), tensor.text(), bytes,
            tensor.end - tensor.begin);
    at = tensor.end;
    before = &tensor;
  }
  require(at == data_bytes, ExitCode::data, "the last tensor ends at byte {} of the data, the file at {}", at,
          data_bytes);
}

}  // namespace

std::string_view name_of(TensorType type) { return types[std::size_t(type)].name; }
std::uint64_t bits_of(TensorType type) { return types[std::size_t(type)].bits; }

std::uint64_t TensorInfo::count() const {
  std::uint64_t product = 1;
  for (const std::uint64_t extent : dims) product *= extent;
  return product;
}

std::string TensorInfo::text() const { return fmt::format("{} {}", mxtape::name_of(type), shape_text(dims)); }

std::string shape_text(const std::vector<std::uint64_t>& dims) {
  constexpr std::size_t most = 8;
  std::string text = "[";
  for (std::size_t i = 0; i < std::min(dims.size(), most); ++i)
    text += fmt::format("{}{}", i ? ", " : "", dims[i]);
  return text + (dims.size() > most ? fmt::format(", ... {} extents]", dims.size()) : "]");
}

std::string shown_name(std::string_view name) {
  constexpr std::size_t most = 120;
  std::string text;
  for (const char c : name.substr(0, most)) {
    const auto byte = static_cast<unsigned char>(c);
    // Beyond ASCII: a cut may lie inside a character.
    if (byte < 0x20 || byte > 0x7e || c == '\\')
      text += fmt::format("\\x{:02x}", byte);
    else
      text += c;
  }
  return name.size() > most ? text + "..." : text;
}

SafetensorsHeader parse_safetensors_header(std::string_view text, std::uint64_t data_bytes) {
  require(!text.empty() && text.front() == '{', ExitCode::data, "the header does not begin with '{{'");
  constexpr int deepest = 3;  // the numbers of a shape
  // nlohmann's parser takes a zero byte for the end of the text.
  require(text.find('\0') == std::string_view::npos, ExitCode::data, "byte {} of the header is 0",
          text.find('\0'));
  const auto last = text.find_last_not_of(" \t\r\n");
  require(text[last] == '}', ExitCode::data, "byte {} of the header follows its object; want blanks there",
          last);
  const json parsed = at_place("the header is not taken", [&] { return parse_json_strictly(text, deepest); });
  SafetensorsHeader header;
  auto& tensors = header.tensors;
  for (const auto& [name, value] : parsed.items()) {
    if (name != "__metadata__") {
      tensors.push_back(read_tensor(name, value));
      continue;
    }
    require(value.is_object(), ExitCode::data, "__metadata__ is {}; want an object", shown_json(value));
    for (const auto& [key, text_of_key] : value.items()) {
      require(text_of_key.is_string(), ExitCode::data, "__metadata__.{} is {}; want a text", shown_name(key),
              shown_json(text_of_key));
      header.metadata[key] = text_of_key.get<std::string>();
    }
  }
  // Tensors without elements take no room: before one that begins at the same byte.
  std::ranges::stable_sort(tensors, {}, [](const TensorInfo& t) { return std::pair(t.begin, t.end); });
  require_contiguous(tensors, data_bytes);
  return header;
}

}  // namespace mxtape
