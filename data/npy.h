#pragma once
#include <cstdint>
#include <filesystem>
#include <span>
#include <vector>

namespace mxtape {

/// An array from NumPy's .npy format.
struct NpyArray {
  std::vector<std::int64_t> dims;
  std::vector<float> values;  ///< row-major
};

/// Reads versions 1 to 3, little-endian, C order: f2 f4 f8 i1 i2 i4 i8 u1 u2 u4 u8, rounded to f32. Throws
/// Error(data) with the path, what is there and what is wanted, also for a number beyond f32's range.
NpyArray read_npy(const std::filesystem::path& path);
/// Version 1, '<f4', C order. Replaces the file whole. Throws Error(resource) if it cannot be written.
void write_npy(const std::filesystem::path& path, std::span<const std::int64_t> dims,
               std::span<const float> values);

}  // namespace mxtape
