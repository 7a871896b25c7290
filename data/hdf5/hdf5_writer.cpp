#include <hdf5.h>

#include <algorithm>
#include <array>

#include "core/files/atomic_file.h"
#include "data/hdf5/hdf5.h"
#include "data/hdf5/hdf5_library.h"
#include "data/hdf5/seal.h"

namespace mxtape {
namespace {

namespace fs = std::filesystem;
using hdf5::Checker, hdf5::Handle, hdf5::object_name, hdf5::prepare_library;

/// Fixed length, UTF-8. HDF5 has no strings of length 0: an empty text is one NUL, which padding drops.
Handle text_type(const Checker& check, std::size_t length) {
  Handle type = check.open(H5Tcopy(H5T_C_S1), H5Tclose, "make a text type");
  check(H5Tset_size(type, std::max<std::size_t>(length, 1)), "set a text's length");
  check(H5Tset_strpad(type, H5T_STR_NULLPAD), "set a text's padding");
  check(H5Tset_cset(type, H5T_CSET_UTF8), "set a text's encoding");
  return type;
}

}  // namespace

struct Hdf5Writer::State {
  fs::path path;
  Checker check{ExitCode::resource, path};
  Handle file;

  explicit State(fs::path p) : path(std::move(p)) {
    prepare_library();
    Handle access = check.open(H5Pcreate(H5P_FILE_ACCESS), H5Pclose, "make access properties");
    constexpr std::size_t growth = std::size_t{1} << 20;
    check(H5Pset_fapl_core(access, growth, false), "choose the memory driver");
    file = check.open(H5Fcreate(path.string().c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, access), H5Fclose,
                      "start an image");
    check.close(access, "access properties");
  }

  Handle make(const std::string& name, hid_t type, const Handle& space) const {
    require(file >= 0, "hdf5: {}: dataset {} after the image was finished", path.string(), name);
    Handle groups = check.open(H5Pcreate(H5P_LINK_CREATE), H5Pclose, "make link properties");
    check(H5Pset_create_intermediate_group(groups, 1), "ask for groups");
    Handle timeless = check.open(H5Pcreate(H5P_DATASET_CREATE), H5Pclose, "make dataset properties");
    check(H5Pset_obj_track_times(timeless, false), "switch off object times");
    Handle set = check.open(H5Dcreate2(file, name.c_str(), type, space, groups, timeless, H5P_DEFAULT),
                            H5Dclose, "make dataset", name);
    for (Handle* handle : {&timeless, &groups}) check.close(*handle, name);
    return set;
  }
  void write(const std::string& name, hid_t type, Handle space, const void* data) const {
    Handle set = make(name, type, space);
    check(H5Dwrite(set, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, data), "write dataset", name);
    for (Handle* handle : {&set, &space}) check.close(*handle, name);
  }
  void array(const std::string& name, hid_t type, std::span<const std::int64_t> dims,
             const void* data) const {
    const std::vector<hsize_t> extents(dims.begin(), dims.end());
    static const char nothing = 0;  // an empty dataset still wants an address
    write(name, type,
          check.open(H5Screate_simple(int(extents.size()), extents.data(), nullptr), H5Sclose,
                     "describe the shape of", name),
          data ? data : &nothing);
  }
  void attribute(const std::string& object, const std::string& name, hid_t type, const void* value) const {
    require(file >= 0, "hdf5: {}: attribute {} after the image was finished", path.string(), name);
    Handle place =
        check.open(H5Oopen(file, object_name(object).c_str(), H5P_DEFAULT), H5Oclose, "open", object);
    Handle space = check.open(H5Screate(H5S_SCALAR), H5Sclose, "make a scalar");
    Handle item = check.open(H5Acreate2(place, name.c_str(), type, space, H5P_DEFAULT, H5P_DEFAULT), H5Aclose,
                             "make attribute", name);
    check(H5Awrite(item, type, value), "write attribute", name);
    for (Handle* handle : {&item, &space, &place}) check.close(*handle, name);
  }
  /// The finished image, where the memory driver has it.
  std::span<const std::byte> image() const {
    require(file >= 0, "hdf5: {}: the image was finished before", path.string());
    check(H5Fflush(file, H5F_SCOPE_GLOBAL), "finish the image");
    const auto length = std::size_t(check(H5Fget_file_image(file, nullptr, 0), "measure the image"));
    void* memory = nullptr;  // a pointer to where it lies
    check(H5Fget_vfd_handle(file, H5P_DEFAULT, &memory), "find the image");
    return {*static_cast<const std::byte* const*>(memory), length};
  }
};

Hdf5Writer::Hdf5Writer(fs::path path) : state_(std::make_unique<State>(std::move(path))) {}
Hdf5Writer::~Hdf5Writer() = default;

void Hdf5Writer::dataset(const std::string& name, const Shape& shape, DType dtype, const void* data) {
  const hid_t types[] = {H5T_NATIVE_FLOAT, H5T_NATIVE_UINT16, H5T_NATIVE_INT32,
                         H5T_NATIVE_UINT8};  // as DType
  state_->array(name, types[std::size_t(dtype)], {shape.dims.data(), std::size_t(shape.rank)}, data);
  if (dtype == DType::bf16) attribute(name, "dtype", std::string("bf16"));
}
void Hdf5Writer::dataset_in_parts(const std::string& name, const Shape& shape,
                                  const std::function<void(const TensorSink&)>& fill) {
  const auto& [path, check, file] = *state_;
  require(shape.rank <= 2, "hdf5: {}: {} in parts is {}; want a vector or a matrix", path.string(), name,
          shape.text());
  const std::vector<hsize_t> extents(shape.dims.begin(), shape.dims.begin() + shape.rank);
  Handle space = check.open(H5Screate_simple(shape.rank, extents.data(), nullptr), H5Sclose,
                            "describe the shape of", name);
  Handle set = state_->make(name, H5T_NATIVE_FLOAT, space);
  const auto all = hsize_t(shape.count()), cols = hsize_t(shape.cols());
  hsize_t done = 0;
  /// `count` numbers at `done`, in one row or whole rows.
  const auto write = [&](const float* values, hsize_t count) {
    const bool matrix = shape.rank == 2;
    const hsize_t start[] = {matrix ? done / cols : done, done % cols};
    const hsize_t counts[] = {matrix ? std::max<hsize_t>(count / cols, 1) : count, std::min(count, cols)};
    check(H5Sselect_hyperslab(space, H5S_SELECT_SET, start, nullptr, counts, nullptr), "select a part of",
          name);
    Handle memory = check.open(H5Screate_simple(1, &count, nullptr), H5Sclose, "describe a part of", name);
    check(H5Dwrite(set, H5T_NATIVE_FLOAT, memory, space, H5P_DEFAULT, values), "write dataset", name);
    check.close(memory, name);
    done += count;
  };
  fill([&](std::span<const float> part) {
    require(part.size() <= all - done, "hdf5: {}: more than {} numbers for {}", path.string(), all, name);
    for (std::size_t from = 0; from < part.size();) {
      const hsize_t left = part.size() - from, to_row_end = cols - done % cols;
      // To the end of a row that was begun, then whole rows, then the beginning of the next.
      const hsize_t count = left < to_row_end ? left : to_row_end < cols ? to_row_end : left / cols * cols;
      write(part.data() + from, count);
      from += count;
    }
  });
  require(done == all, "hdf5: {}: {} numbers for {}, want {}", path.string(), done, name, all);
  for (Handle* handle : {&set, &space}) check.close(*handle, name);
}
void Hdf5Writer::dataset_u16(const std::string& name, std::span<const std::uint16_t> data) {
  state_->array(name, H5T_NATIVE_UINT16, std::array{std::int64_t(data.size())}, data.data());
}
void Hdf5Writer::dataset_u32(const std::string& name, std::span<const std::uint32_t> data) {
  state_->array(name, H5T_NATIVE_UINT32, std::array{std::int64_t(data.size())}, data.data());
}
void Hdf5Writer::text(const std::string& name, const std::string& text) {
  Handle type = text_type(state_->check, text.size());
  state_->write(name, type, state_->check.open(H5Screate(H5S_SCALAR), H5Sclose, "make a scalar"),
                text.c_str());
  state_->check.close(type, name);
}
void Hdf5Writer::attribute(const std::string& object, const std::string& name, const std::string& text) {
  Handle type = text_type(state_->check, text.size());
  state_->attribute(object, name, type, text.c_str());
  state_->check.close(type, name);
}
void Hdf5Writer::attribute(const std::string& object, const std::string& name, std::int64_t value) {
  state_->attribute(object, name, H5T_NATIVE_INT64, &value);
}
void Hdf5Writer::attribute(const std::string& object, const std::string& name, double value) {
  state_->attribute(object, name, H5T_NATIVE_DOUBLE, &value);
}

void Hdf5Writer::commit(Seal seal) {
  const auto made = state_->image();
  if (seal == Seal::yes)
    write_parts_atomically(state_->path, {made, make_seal(made)});
  else
    write_parts_atomically(state_->path, {made});
  state_->check.close(state_->file, "the image");
}

}  // namespace mxtape
