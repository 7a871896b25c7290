#include <fmt/ranges.h>
#include <hdf5.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>

#include "data/hdf5/hdf5.h"
#include "data/hdf5/hdf5_library.h"

namespace mxtape {
namespace fs = std::filesystem;
using hdf5::Checker, hdf5::Handle, hdf5::object_name, hdf5::prepare_library;

struct Hdf5Reader::State {
  fs::path path;
  Checker check{ExitCode::data, path};
  Handle file;

  explicit State(fs::path p) : path(std::move(p)) {
    prepare_library();
    std::error_code error;
    const auto status = fs::status(path, error);
    require(fs::exists(status), fs::status_known(status) ? ExitCode::data : ExitCode::resource, "{}: {}",
            path.string(), error.message());
    require(fs::is_regular_file(status), ExitCode::data, "{}: is a {}, want an HDF5 file", path.string(),
            fs::is_directory(status) ? "folder" : "device or pipe");
    Handle access = check.open(H5Pcreate(H5P_FILE_ACCESS), H5Pclose, "make access properties");
    check(H5Pset_file_locking(access, false, true), "switch off file locking");
    file = check.open(H5Fopen(path.string().c_str(), H5F_ACC_RDONLY, access), H5Fclose, "open the file");
    check.close(access, "access properties");
  }

  bool has(const std::string& object) const {
    const std::string name = object_name(object);
    for (std::size_t slash = name.find('/', 1); name != "/"; slash = name.find('/', slash + 1)) {
      if (check(H5Lexists(file, name.substr(0, slash).c_str(), H5P_DEFAULT), "look for", name) == 0)
        return false;
      if (slash == std::string::npos) break;
    }
    return true;
  }
  Handle object(const std::string& name) const {
    require(has(name), ExitCode::data, "{}: has no '{}'", path.string(), name);
    return check.open(H5Oopen(file, object_name(name).c_str(), H5P_DEFAULT), H5Oclose, "open", name);
  }
  Handle dataset(const std::string& name) const {
    Handle found = object(name);
    require(H5Iget_type(found) == H5I_DATASET, ExitCode::data, "{}: '{}' is a group, want a dataset",
            path.string(), name);
    return found;
  }
  bool has_attribute(hid_t object, const std::string& name) const {
    return check(H5Aexists(object, name.c_str()), "look for attribute", name) > 0;
  }
  Handle attribute(hid_t object, const std::string& object_name, const std::string& name) const {
    require(has_attribute(object, name), ExitCode::data, "{}: '{}' has no attribute '{}'", path.string(),
            object_name, name);
    return check.open(H5Aopen(object, name.c_str(), H5P_DEFAULT), H5Aclose, "open attribute", name);
  }
  /// Fixed-length texts, which is what Hdf5Writer makes.
  template <class Read>
  std::string text(hid_t type, const std::string& name, const Read& read) const {
    require(H5Tget_class(type) == H5T_STRING && check(H5Tis_variable_str(type), "ask the type of", name) == 0,
            ExitCode::data, "{}: '{}' is not a text of fixed length", path.string(), name);
    std::string value(H5Tget_size(type), '\0');
    check(read(value.data()), "read", name);
    value.resize(std::strlen(value.c_str()));
    return value;
  }
  template <class T>
  T scalar_attribute(const std::string& object_name, const std::string& name, H5T_class_t wanted,
                     hid_t memory, const char* wanted_name) const {
    const Handle place = object(object_name), item = attribute(place, object_name, name);
    const Handle type = check.open(H5Aget_type(item), H5Tclose, "ask the type of", name);
    const Handle space = check.open(H5Aget_space(item), H5Sclose, "ask the shape of", name);
    require(H5Tget_class(type) == wanted && H5Sget_simple_extent_npoints(space) == 1, ExitCode::data,
            "{}: attribute '{}' of '{}' is not {}", path.string(), name, object_name, wanted_name);
    T value{};
    check(H5Aread(item, memory, &value), "read attribute", name);
    return value;
  }
  Info info(const std::string& name) const;
  template <class T>
  std::vector<T> read(const std::string& name, hid_t memory,
                      std::initializer_list<std::string_view> types) const {
    const Info found = info(name);
    require(std::ranges::find(types, found.type) != types.end(), ExitCode::data,
            "{}: dataset '{}' is {}, want {}", path.string(), name, found.type, fmt::join(types, ", "));
    std::vector<T> values(std::size_t(found.count()));
    const Handle set = dataset(name);
    if (!values.empty())
      check(H5Dread(set, memory, H5S_ALL, H5S_ALL, H5P_DEFAULT, values.data()), "read dataset", name);
    return values;
  }
};

Hdf5Reader::Hdf5Reader(fs::path path) : state_(std::make_unique<State>(std::move(path))) {}
Hdf5Reader::~Hdf5Reader() = default;

std::int64_t Hdf5Reader::Info::count() const {
  return std::accumulate(dims.begin(), dims.end(), std::int64_t{1}, std::multiplies());
}

Hdf5Reader::Info Hdf5Reader::State::info(const std::string& name) const {
  const Handle set = dataset(name);
  const Handle type = check.open(H5Dget_type(set), H5Tclose, "ask the type of", name);
  const Handle space = check.open(H5Dget_space(set), H5Sclose, "ask the shape of", name);
  const int rank = check(H5Sget_simple_extent_ndims(space), "ask the rank of", name);
  const bool is_null = H5Sget_simple_extent_type(space) == H5S_NULL;  // no elements, though of no axes
  std::vector<hsize_t> extents(is_null ? 1 : std::size_t(rank));
  check(H5Sget_simple_extent_dims(space, extents.data(), nullptr), "ask the extents of", name);

  Info result{name, {extents.begin(), extents.end()}, "other"};
  const auto bits = 8 * H5Tget_size(type);
  const auto kind = H5Tget_class(type);
  if (kind == H5T_STRING) result.type = "text";
  if (kind == H5T_FLOAT && (bits == 16 || bits == 32 || bits == 64)) result.type = fmt::format("f{}", bits);
  if (kind == H5T_INTEGER)
    result.type = fmt::format("{}{}", H5Tget_sign(type) == H5T_SGN_NONE ? 'u' : 'i', bits);
  if (result.type == "u16" && has_attribute(set, "dtype")) result.type = "bf16";
  return result;
}

std::vector<Hdf5Reader::Info> Hdf5Reader::datasets() const {
  struct Found {
    const Hdf5Reader& reader;
    std::vector<Info> list;
    std::exception_ptr error;
  } found{*this, {}, {}};
  const auto visit = [](hid_t, const char* name, const H5O_info_t* object, void* out) -> herr_t {
    auto& result = *static_cast<Found*>(out);
    try {
      if (object->type == H5O_TYPE_DATASET) result.list.push_back(result.reader.info(name));
      return 0;
    } catch (...) {  // nothing may be thrown through C
      result.error = std::current_exception();
      return -1;
    }
  };
  const auto status = H5Ovisit2(state_->file, H5_INDEX_NAME, H5_ITER_INC, visit, &found, H5O_INFO_BASIC);
  if (found.error) std::rethrow_exception(found.error);
  state_->check(status, "list the datasets");
  std::ranges::sort(found.list, {}, &Info::name);
  return found.list;
}

Hdf5Reader::Info Hdf5Reader::info(const std::string& dataset) const { return state_->info(dataset); }
bool Hdf5Reader::has(const std::string& object) const { return state_->has(object); }

std::vector<float> Hdf5Reader::read_f32(const std::string& dataset) const {
  if (info(dataset).type == "bf16") {
    std::vector<float> values;
    for (const auto bits : read_u16(dataset)) values.push_back(to_f32(bf16{bits}));
    return values;
  }
  if (info(dataset).type != "f64")
    return state_->read<float>(dataset, H5T_NATIVE_FLOAT,
                               {"f16", "f32", "f64", "i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64"});
  const auto exact = state_->read<double>(dataset, H5T_NATIVE_DOUBLE, {"f64"});
  std::vector<float> values(exact.begin(), exact.end());  // HDF5 makes infinity of what rounds to the largest
  for (std::size_t i = 0; i < exact.size(); ++i)
    require(std::isfinite(values[i]) || !std::isfinite(exact[i]), ExitCode::data,
            "{}: '{}' holds {} at element {}; want numbers in f32's range", path().string(), dataset,
            exact[i], i);
  return values;
}
std::vector<std::uint8_t> Hdf5Reader::read_u8(const std::string& dataset) const {
  return state_->read<std::uint8_t>(dataset, H5T_NATIVE_UINT8, {"u8"});
}
std::vector<std::uint16_t> Hdf5Reader::read_u16(const std::string& dataset) const {
  return state_->read<std::uint16_t>(dataset, H5T_NATIVE_UINT16, {"u16", "bf16"});
}
std::vector<std::uint32_t> Hdf5Reader::read_u32(const std::string& dataset) const {
  return state_->read<std::uint32_t>(dataset, H5T_NATIVE_UINT32, {"u32"});
}
std::string Hdf5Reader::read_text(const std::string& name) const {
  const Handle set = state_->dataset(name);
  const Handle type = state_->check.open(H5Dget_type(set), H5Tclose, "ask the type of", name);
  return state_->text(type, name,
                      [&](char* out) { return H5Dread(set, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, out); });
}

std::optional<std::uint64_t> Hdf5Reader::plain_at(const std::string& name) const {
  const Handle set = state_->dataset(name);
  const Handle type = state_->check.open(H5Dget_type(set), H5Tclose, "ask the type of", name);
  const bool native = H5Tequal(type, H5T_NATIVE_UINT16) > 0 || H5Tequal(type, H5T_NATIVE_UINT32) > 0;
  const haddr_t at = H5Dget_offset(set);  // HADDR_UNDEF for all that does not lie in one piece
  if (!native || at == HADDR_UNDEF) return {};
  return at;
}

std::string Hdf5Reader::text_attribute(const std::string& object, const std::string& name) const {
  const Handle place = state_->object(object), item = state_->attribute(place, object, name);
  const Handle type = state_->check.open(H5Aget_type(item), H5Tclose, "ask the type of", name);
  return state_->text(type, name, [&](char* out) { return H5Aread(item, type, out); });
}
std::int64_t Hdf5Reader::int_attribute(const std::string& object, const std::string& name) const {
  return state_->scalar_attribute<std::int64_t>(object, name, H5T_INTEGER, H5T_NATIVE_INT64, "one integer");
}
double Hdf5Reader::real_attribute(const std::string& object, const std::string& name) const {
  return state_->scalar_attribute<double>(object, name, H5T_FLOAT, H5T_NATIVE_DOUBLE, "one float");
}
std::optional<std::string> Hdf5Reader::find_text_attribute(const std::string& object,
                                                           const std::string& name) const {
  return has_attribute(object, name) ? std::optional(text_attribute(object, name)) : std::nullopt;
}
bool Hdf5Reader::has_attribute(const std::string& object, const std::string& name) const {
  return has(object) && state_->has_attribute(state_->object(object), name);
}
const fs::path& Hdf5Reader::path() const { return state_->path; }

}  // namespace mxtape
