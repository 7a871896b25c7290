#include "data/safetensors/header.h"

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <utility>

#include "core/error.h"

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
  const auto found =
      std::find_if(std::begin(types), std::end(types), [&](const TypeRow& row) { return row.name == name; });
  if (found == std::end(types)) return {};
  return TensorType(found - std::begin(types));
}

/// Takes the events of nlohmann's parser. Its document tree is not used: that keeps the last of two equal
/// names, and grows with the nesting.
class HeaderEvents : public json::json_sax_t {
 public:
  SafetensorsHeader header;

  bool null() override { return wrong("null"); }
  bool boolean(bool) override { return wrong("a boolean"); }
  bool number_integer(number_integer_t value) override { return wrong(fmt::format("{}", value)); }
  bool number_float(number_float_t, const string_t& text) override { return wrong(shown_name(text)); }
  bool binary(binary_t&) override { return wrong("bytes"); }
  bool number_unsigned(number_unsigned_t value) override {
    if (!list_) return wrong(fmt::format("{}", value));
    list_->push_back(value);
    return true;
  }
  bool string(string_t& text) override {
    if (depth_ == 2 && in_metadata_) {
      header.metadata[key_] = text;
      return true;
    }
    if (depth_ != 2 || list_ || key_ != "dtype") return wrong(fmt::format("the text {}", shown_name(text)));
    const auto type = type_named(text);
    require(type.has_value(), ExitCode::data, "'{}': dtype {} is not one of safetensors'",
            shown_name(tensor_.name), shown_name(text));
    tensor_.type = *type;
    return true;
  }
  bool start_object(std::size_t) override {
    if (depth_ >= 2 || list_) return wrong("an object");
    ++depth_;
    return true;
  }
  bool key(string_t& name) override {
    if (depth_ == 1) {
      require(names_.insert(name).second, ExitCode::data, "'{}' occurs twice", shown_name(name));
      in_metadata_ = name == "__metadata__";
      tensor_ = {};
      tensor_.name = key_ = name;
      seen_.clear();
      return true;
    }
    require(seen_.insert(name).second, ExitCode::data, "'{}': the key {} occurs twice",
            shown_name(tensor_.name), shown_name(name));
    require(in_metadata_ || name == "dtype" || name == "shape" || name == "data_offsets", ExitCode::data,
            "'{}': the key {} is not one of safetensors': dtype shape data_offsets", shown_name(tensor_.name),
            shown_name(name));
    key_ = name;
    return true;
  }
  bool end_object() override {
    if (--depth_ == 0 || in_metadata_) return true;
    for (const char* const wanted : {"dtype", "shape", "data_offsets"})
      require(seen_.count(wanted) > 0, ExitCode::data, "'{}': {} is missing", shown_name(tensor_.name),
              wanted);
    require(offsets_.size() == 2, ExitCode::data, "'{}': data_offsets has {} numbers, want 2",
            shown_name(tensor_.name), offsets_.size());
    tensor_.begin = offsets_[0];
    tensor_.end = offsets_[1];
    header.tensors.push_back(std::move(tensor_));
    return true;
  }
  bool start_array(std::size_t) override {
    if (depth_ != 2 || in_metadata_ || list_ || key_ == "dtype") return wrong("a list");
    list_ = key_ == "shape" ? &tensor_.dims : &offsets_;
    list_->clear();
    return true;
  }
  bool end_array() override {
    list_ = nullptr;
    return true;
  }
  bool parse_error(std::size_t position, const std::string&,
                   const nlohmann::detail::exception& error) override {
    const std::string_view text =
        error.what();  // "[json.exception.parse_error.101] parse error at ...: syntax error ..."
    const auto colon = text.find(": ");
    fail(ExitCode::data, "the header is no JSON: byte {}{}", position,
         colon == std::string_view::npos ? "" : text.substr(colon, 120));
  }

 private:
  /// A value of a kind that belongs somewhere else.
  bool wrong(const std::string& found) const {
    if (depth_ == 0) fail(ExitCode::data, "the header is {}; want an object", found);
    if (depth_ == 1)
      fail(ExitCode::data, "'{}' is {}; want an object with dtype, shape and data_offsets", shown_name(key_),
           found);
    if (in_metadata_) fail(ExitCode::data, "__metadata__.{} is {}; want a text", shown_name(key_), found);
    const bool is_type = key_ == "dtype";
    fail(ExitCode::data, "'{}': {} is {}; want {}", shown_name(tensor_.name), key_, found,
         is_type ? "a text" : "a list of whole numbers from 0 to 2^64 - 1");
  }

  int depth_ = 0;  // of objects
  bool in_metadata_ = false;
  std::string key_;
  TensorInfo tensor_;
  std::vector<std::uint64_t> offsets_;
  std::vector<std::uint64_t>* list_ = nullptr;  // the one that is being read
  std::set<std::string> names_, seen_;
};

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
  // nlohmann's parser takes a zero byte for the end of the text.
  require(text.find('\0') == std::string_view::npos, ExitCode::data, "byte {} of the header is 0",
          text.find('\0'));
  const auto last = text.find_last_not_of(" \t\r\n");
  require(text[last] == '}', ExitCode::data, "byte {} of the header follows its object; want blanks there",
          last);
  HeaderEvents events;
  json::sax_parse(text.begin(), text.end(), &events);
  auto& tensors = events.header.tensors;
  // Tensors without elements take no room: before one that begins at the same byte.
  std::stable_sort(tensors.begin(), tensors.end(), [](const TensorInfo& a, const TensorInfo& b) {
    return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
  });
  require_contiguous(tensors, data_bytes);
  return std::move(events.header);
}

}  // namespace mxtape
