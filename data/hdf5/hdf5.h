#pragma once
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/tensor.h"

namespace mxtape {

/// "1.10.8": of the library that the program runs with.
std::string hdf5_version();

/// Takes the next elements of a tensor, row-major.
using TensorSink = std::function<void(std::span<const float>)>;
/// A tensor that comes in parts: read() hands its elements on, in as many as it likes.
struct TensorInParts {
  std::string name;
  Shape shape;
  std::function<void(const TensorSink&)> read;
};

/// Whether a content hash follows the image: data/hdf5/seal.h.
enum class Seal : bool { no, yes };

/// HDF5 files as mxtape uses them: plain contiguous datasets, text and number attributes, object times off,
/// so that equal content gives equal bytes. Only data/hdf5/ sees libhdf5. That library has global state: use
/// these classes from one thread at a time.
///
/// The file is built in memory and written by write_atomically (core/files/atomic_file.h). HDF5 itself never
/// writes to the disk: it reports a full one only when it closes, and may crash at exit after that.
class Hdf5Writer {
 public:
  explicit Hdf5Writer(std::filesystem::path path);
  ~Hdf5Writer();  ///< without commit() nothing was written
  Hdf5Writer(const Hdf5Writer&) = delete;

  /// Dataset names may hold '/' (groups are made). Types: f32, i32, u8 by DType; bf16 as u16 with attribute
  /// dtype = "bf16".
  void dataset(const std::string& name, const Shape& shape, DType dtype, const void* data);
  /// An f32 dataset that `fill` hands over in parts, in order. Throws Error(internal) unless they fill the
  /// shape.
  void dataset_in_parts(const std::string& name, const Shape& shape,
                        const std::function<void(const TensorSink&)>& fill);
  void dataset_u16(const std::string& name, std::span<const std::uint16_t> data);
  void dataset_u32(const std::string& name, std::span<const std::uint32_t> data);
  /// A text of any length, as one fixed-length UTF-8 string. (An attribute holds at most 64 KiB.)
  void text(const std::string& name, const std::string& text);
  /// Attributes of a dataset or group; "" or "/" is the file.
  void attribute(const std::string& object, const std::string& name, const std::string& text);
  void attribute(const std::string& object, const std::string& name, std::int64_t value);
  void attribute(const std::string& object, const std::string& name, double value);

  /// Writes the finished file; nothing can be added afterwards. Throws Error(resource) with path, needed and
  /// free bytes. Seal::yes appends the content hash of data/hdf5/seal.h, which h5dump and h5py do not see.
  void commit(Seal seal = Seal::no);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// Reads a file that Hdf5Writer or anybody else made. Missing things, wrong types and broken files throw
/// Error(data) with path, name and what is there. Call verify_seal (data/hdf5/seal.h) first where the file is
/// ours.
class Hdf5Reader {
 public:
  explicit Hdf5Reader(std::filesystem::path path);
  ~Hdf5Reader();
  Hdf5Reader(const Hdf5Reader&) = delete;

  struct Info {
    std::string name;
    std::vector<std::int64_t> dims;
    std::string type;  ///< f16 f32 f64 bf16, i8 i16 i32 i64, u8 u16 u32 u64, text, or "other"
    std::int64_t count() const;
  };
  std::vector<Info> datasets() const;  ///< all, sorted by name
  Info info(const std::string& dataset) const;
  bool has(const std::string& object) const;
  /// Any float or integer dataset, rounded to f32. Throws Error(data) for a number beyond f32's range.
  std::vector<float> read_f32(const std::string& dataset) const;
  /// Exact: other types throw.
  std::vector<std::uint8_t> read_u8(const std::string& dataset) const;
  std::vector<std::uint16_t> read_u16(const std::string& dataset) const;
  std::vector<std::uint32_t> read_u32(const std::string& dataset) const;
  std::string read_text(const std::string& dataset) const;
  /// The byte of the file at which the numbers of a u16 or u32 dataset begin. None unless they lie there as
  /// they do in memory: not in chunks, not compressed, not in other files, in the machine's byte order.
  std::optional<std::uint64_t> plain_at(const std::string& dataset) const;
  std::string text_attribute(const std::string& object, const std::string& name) const;
  std::int64_t int_attribute(const std::string& object, const std::string& name) const;
  double real_attribute(const std::string& object, const std::string& name) const;
  std::optional<std::string> find_text_attribute(const std::string& object, const std::string& name) const;
  bool has_attribute(const std::string& object, const std::string& name) const;
  const std::filesystem::path& path() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace mxtape
