#include "program/tensor_source.h"

#include <charconv>
#include <filesystem>

#include "core/error.h"
#include "core/math/normal.h"
#include "core/text/nearest_name.h"
#include "data/arrays/npy.h"
#include "data/hdf5/hdf5.h"

namespace mxtape {
namespace {

struct Location {
  std::string file, dataset;
};

/// Splits at the last ":/"; a drive or a path with a colon elsewhere stays whole.
Location locate(const std::string& text) {
  const std::size_t at = text.rfind(":/");
  if (at == std::string::npos) return {text, ""};
  return {text.substr(0, at), text.substr(at + 1)};
}

bool is_npy(const std::string& text) { return text.ends_with(".npy"); }

HostTensor load_hdf5(const std::string& source) {
  auto [file, dataset] = locate(source);
  const Hdf5Reader reader(file);
  const auto all = reader.datasets();
  std::vector<std::string> names;
  for (const auto& info : all) names.push_back(info.name);
  const std::vector<std::string_view> known(names.begin(), names.end());
  if (dataset.empty()) {
    require(all.size() == 1, ExitCode::data, "{}: holds {} datasets; say which, as {}:/name; there are:{}",
            file, all.size(), file, listed(known));
    dataset = names[0];
  }
  require(reader.has(dataset), ExitCode::data, "{}: no dataset '{}'{}", file, dataset,
          suggestion(dataset, known));
  return {source, reader.info(dataset).dims, reader.read_f32(dataset)};
}

}  // namespace

bool is_hdf5(const std::string& file) { return file.ends_with(".h5") || file.ends_with(".hdf5"); }

HostTensor load_tensor(const std::string& source) {
  HostTensor tensor;
  if (is_npy(source)) {
    NpyArray array = read_npy(source);
    tensor = {source, std::move(array.dims), std::move(array.values)};
  } else {
    tensor = load_hdf5(source);
  }
  require(!tensor.values.empty(), ExitCode::data, "{}: the tensor is empty", source);
  return tensor;
}

HostTensor normal_tensor(const std::string& shape, std::uint64_t seed) {
  std::int64_t rows = 0, cols = 0;
  const char* const end = shape.data() + shape.size();
  const auto first = std::from_chars(shape.data(), end, rows);
  const bool crossed = first.ec == std::errc{} && first.ptr != end && *first.ptr == 'x';
  const auto second = crossed ? std::from_chars(first.ptr + 1, end, cols) : first;
  // 2^31 elements: 8 GiB, more than a comparison of formats needs.
  require(crossed && second.ec == std::errc{} && second.ptr == end && rows > 0 && cols > 0 &&
              rows <= (std::int64_t{1} << 31) / cols,
          ExitCode::usage, "--normal {}: want ROWSxCOLS, such as 1024x512, with at most 2^31 elements",
          shape);
  HostTensor tensor{fmt::format("normal {} (seed {})", shape, seed), {rows, cols}, {}};
  tensor.values.resize(std::size_t(rows * cols));
  const DrawKey key{seed, Purpose::sampling, 0, 0, 0};
  for (std::size_t i = 0; i < tensor.values.size(); i += 2) {
    const NormalPair pair = normal_pair(key, i / 2);
    tensor.values[i] = pair.first;
    if (i + 1 < tensor.values.size()) tensor.values[i + 1] = pair.second;
  }
  return tensor;
}

std::string file_of(const std::string& source) { return locate(source).file; }

void require_target(const std::string& target) {
  if (is_npy(target)) return;
  const std::string file = file_of(target);
  require(is_hdf5(file), ExitCode::usage, "{}: want FILE.npy, or FILE.h5 or FILE.h5:/dataset", target);
  // "FILE.h5:/dataset" reads like "into that file", but all else in it would be gone.
  require(!std::filesystem::exists(file), ExitCode::usage,
          "{}: is there already; a tensor is written to a new HDF5 file: remove it, or name another one",
          file);
}

void save_tensor(const std::string& target, const HostTensor& tensor) {
  require_target(target);
  if (is_npy(target)) return write_npy(target, tensor.dims, tensor.values);
  auto [file, dataset] = locate(target);
  require(tensor.dims.size() <= 4, ExitCode::data, "{}: {} axes; HDF5 output has at most 4", target,
          tensor.dims.size());
  Shape shape;
  for (const std::int64_t extent : tensor.dims) shape.dims[std::size_t(shape.rank++)] = extent;
  Hdf5Writer writer(file);
  writer.dataset(dataset.empty() ? "/values" : dataset, shape, DType::f32, tensor.values.data());
  writer.commit();
}

}  // namespace mxtape
