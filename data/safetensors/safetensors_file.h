#pragma once
#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "core/files/random_access.h"
#include "data/safetensors/header.h"

namespace mxtape {

/// A .safetensors file, read as if it were hostile: nothing is allocated before its size was held against the
/// file's, and every byte of the data belongs to one tensor. Tensors are read in parts.
/// Format: 8 bytes n, little-endian; n bytes of JSON; data. github.com/huggingface/safetensors, README.
class SafetensorsFile {
 public:
  /// Reads the header. Throws Error(data) with the path: not this format, a Git LFS pointer, a web page, a
  /// pickle, or what parse_safetensors_header() refuses.
  explicit SafetensorsFile(const std::filesystem::path&);

  const std::filesystem::path& path() const { return file_.path(); }
  /// In the order of their bytes.
  const std::vector<TensorInfo>& tensors() const { return header_.tensors; }
  const std::map<std::string, std::string>& metadata() const { return header_.metadata; }
  const TensorInfo* find(const std::string& name) const;
  /// Throws Error(data) where there is none of that name.
  const TensorInfo& at(const std::string& name) const;

  /// out.size() elements from `first` on, row-major, as f32. Throws Error(data) with name and index for an
  /// element that is not finite, and for types other than F32, F16 and BF16: nothing is narrowed.
  void read_f32(const TensorInfo&, std::uint64_t first, std::span<float> out) const;
  /// The whole of an F64 (or F32, F16, BF16) or an I32 tensor. Throws Error(data) for another type.
  std::vector<double> read_f64(const TensorInfo&) const;
  std::vector<std::int32_t> read_i32(const TensorInfo&) const;

 private:
  void require_type(const TensorInfo&, bool fits, const char* wanted) const;
  std::uint64_t place(const TensorInfo&, std::uint64_t element) const;

  RandomAccessFile file_;
  std::uint64_t data_begin_ = 0;
  SafetensorsHeader header_;
  std::map<std::string, std::size_t> index_;
};

/// out.size() numbers F32, F16 or BF16 from byte `at` on. As require_finite().
void read_floats(const RandomAccessFile&, std::uint64_t at, TensorType, std::span<float> out,
                 const std::string& name, std::uint64_t first);
/// Throws Error(data) with file, name and index, counted from `first`, of a number that is not finite.
void require_finite(std::span<const float>, const RandomAccessFile&, const std::string& name,
                    std::uint64_t first = 0);

}  // namespace mxtape
