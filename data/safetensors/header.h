#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace mxtape {

// clang-format off
/// The number types of safetensors.
enum class TensorType : std::uint8_t {
  boolean, f4, f6_e2m3, f6_e3m2, u8, i8, f8_e5m2, f8_e4m3, f8_e8m0, i16,
  u16, f16, bf16, i32, u32, f32, c64, f64, i64, u64
};
// clang-format on
/// "F32", as files spell it.
std::string_view name_of(TensorType);
std::uint64_t bits_of(TensorType);

/// One tensor of a file: what it is, and where its bytes are.
struct TensorInfo {
  std::string name;
  TensorType type = TensorType::f32;
  std::vector<std::uint64_t> dims;
  std::uint64_t begin = 0, end = 0;  ///< of its bytes, counted from the first byte after the header

  std::uint64_t count() const;
  std::string text() const;  ///< "F32 [768, 2304]"
};

/// A header of a safetensors file. Tensors are in the order of their bytes.
struct SafetensorsHeader {
  std::vector<TensorInfo> tensors;
  std::map<std::string, std::string> metadata;
};

inline constexpr std::uint64_t largest_header = 100'000'000;  ///< bytes: what the reference reader takes

/// Reads the JSON of a header. `data_bytes`: what follows it in the file. Names that occur twice, nesting,
/// numbers that are no whole ones, sizes that do not fit the shape, and bytes that no tensor or two tensors
/// own throw Error(data).
SafetensorsHeader parse_safetensors_header(std::string_view json, std::uint64_t data_bytes);

/// A name from a file, for a message: escaped, at most 120 bytes of it.
std::string shown_name(std::string_view);
/// "[2, 3]".
std::string shape_text(const std::vector<std::uint64_t>& dims);

}  // namespace mxtape
