#pragma once
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/tensor.h"

namespace mxtape {

/// Whether a content hash follows the image: data/seal.h.
enum class Seal : bool { no, yes };

/// HDF5 files as mxtape uses them: plain contiguous datasets and text/number attributes, object times off, so
/// that equal content gives equal bytes. The only file that includes hdf5.h is hdf5.cpp.
///
/// Writing builds the whole image in memory, appends nothing to disk until commit(), then: write
/// `<path>.tmp.<pid>`, fsync, rename, fsync the folder. A crash or a full disk leaves the old file, or the
/// new one, whole. Throws Error(resource) with path, needed and free bytes.
class Hdf5Writer {
 public:
  explicit Hdf5Writer(std::filesystem::path path);
  ~Hdf5Writer();  ///< without commit() nothing was written
  Hdf5Writer(const Hdf5Writer&) = delete;
  Hdf5Writer& operator=(const Hdf5Writer&) = delete;

  /// Dataset names may hold '/' (groups are made). Types: f32, i32, u8 by DType; bf16 as u16 with attribute
  /// dtype = "bf16".
  void dataset(const std::string& name, const Shape& shape, DType dtype, const void* data);
  void dataset_u16(const std::string& name, std::span<const std::uint16_t> data);
  void dataset_u32(const std::string& name, std::span<const std::uint32_t> data);
  /// Attributes of a dataset or group; "" or "/" is the file.
  void attribute(const std::string& object, const std::string& name, const std::string& text);
  void attribute(const std::string& object, const std::string& name, std::int64_t value);
  void attribute(const std::string& object, const std::string& name, double value);
  /// Seal::yes appends the content hash of data/seal.h, which h5dump and h5py do not see.
  void commit(Seal = Seal::no);

 private:
  struct State;
  State* state_;
};

/// Reads a file that Hdf5Writer or anybody else made. Missing things throw Error(data) with path, name and
/// what is there.
class Hdf5Reader {
 public:
  explicit Hdf5Reader(std::filesystem::path path);
  ~Hdf5Reader();
  Hdf5Reader(const Hdf5Reader&) = delete;
  Hdf5Reader& operator=(const Hdf5Reader&) = delete;

  struct Info {
    std::string name;
    std::vector<std::int64_t> dims;
    std::string type;  ///< "f32", "f64", "f16", "u8", "u16", "u32", "i32", "i64"
  };
  std::vector<Info> datasets() const;  ///< all, sorted by name
  Info info(const std::string& dataset) const;
  bool has(const std::string& object) const;
  /// Any float or integer dataset, converted by HDF5.
  std::vector<float> read_f32(const std::string& dataset) const;
  std::vector<std::uint8_t> read_u8(const std::string& dataset) const;
  std::vector<std::int32_t> read_i32(const std::string& dataset) const;
  /// Elements [first, first + out.size()) of a one-dimensional dataset.
  void read_range(const std::string& dataset, std::int64_t first, std::span<std::int32_t> out) const;
  std::string text_attribute(const std::string& object, const std::string& name) const;
  std::int64_t int_attribute(const std::string& object, const std::string& name) const;
  double real_attribute(const std::string& object, const std::string& name) const;
  std::optional<std::string> find_text_attribute(const std::string& object, const std::string& name) const;
  const std::filesystem::path& path() const;

 private:
  struct State;
  State* state_;
};

}  // namespace mxtape
