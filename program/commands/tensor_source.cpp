#include "program/commands/tensor_source.h"

#include "core/error.h"
#include "core/files/status.h"
#include "core/normal.h"
#include "core/text/nearest_name.h"
#include "core/text/number.h"
#include "core/text/program_name.h"
#include "data/hdf5/hdf5.h"
#include "data/npy.h"
#include "data/safetensors/safetensors_file.h"

namespace mxtape {
namespace {

struct Location {
  std::string file, dataset;
};

constexpr std::string_view safetensors = ".safetensors";

/// Splits behind the ending of a safetensors file, else at the last ":/"; a path with a colon elsewhere stays
/// whole.
Location locate(const std::string& text) {
  if (text.ends_with(safetensors)) return {text, ""};
  if (const auto named = text.rfind(std::string(safetensors) + ":"); named != std::string::npos) {
    const std::size_t end = named + safetensors.size();
    return {text.substr(0, end), text.substr(end + 1)};
  }
  const std::size_t at = text.rfind(":/");
  if (at == std::string::npos) return {text, ""};
  return {text.substr(0, at), text.substr(at + 1)};
}

bool is_npy(const std::string& text) { return text.ends_with(".npy"); }

/// The name that was given, or of the only one of the tensors.
std::string chosen(const Location& from, const auto& tensors, std::string_view separator, const auto& has) {
  const auto known = names_in(tensors);
  require(!from.dataset.empty() || known.size() == 1, ExitCode::data,
          "{}: holds {} tensors; say which, as {}{}name; there are:{}", from.file, known.size(), from.file,
          separator, listed(known));
  const std::string name = from.dataset.empty() ? std::string(known[0]) : from.dataset;
  require(has(name), ExitCode::data, "{}: no tensor '{}'{}", from.file, name, suggestion(name, known));
  return name;
}

HostTensor load_safetensors(const std::string& source) {
  const Location from = locate(source);
  const SafetensorsFile file(from.file);
  const TensorInfo& info = file.at(
      chosen(from, file.tensors(), ":", [&](const std::string& name) { return file.find(name) != nullptr; }));
  HostTensor tensor{
      source, {info.dims.begin(), info.dims.end()}, std::vector<float>(std::size_t(info.count()))};
  file.read_f32(info, 0, tensor.values);
  return tensor;
}

Hdf5Reader opened(const std::string& file) {
  try {
    return Hdf5Reader(file);
  } catch (const Error& e) {
    fail(e.code(), "{}; want {}", e.what(), tensor_names);
  }
}

HostTensor load_hdf5(const std::string& source) {
  const Location from = locate(source);
  require(!is_folder(from.file), ExitCode::data,
          "{}: a folder; want {}; a run's weights are datasets of its checkpoints, and `{} inspect RUN` "
          "measures formats on them",
          from.file, tensor_names, program_name());
  const Hdf5Reader reader = opened(from.file);
  const std::string dataset =
      chosen(from, reader.datasets(), ":/", [&](const std::string& name) { return reader.has(name); });
  return {source, reader.info(dataset).dims, reader.read_f32(dataset)};
}

}  // namespace

bool is_hdf5(const std::string& file) { return file.ends_with(".h5") || file.ends_with(".hdf5"); }

HostTensor load_tensor(const std::string& source) try {
  HostTensor tensor;
  if (is_npy(source)) {
    NpyArray array = read_npy(source);
    tensor = {source, std::move(array.dims), std::move(array.values)};
  } else {
    tensor = locate(source).file.ends_with(safetensors) ? load_safetensors(source) : load_hdf5(source);
  }
  require(!tensor.values.empty(), ExitCode::data, "{}: the tensor is empty", source);
  return tensor;
} catch (const std::exception& e) {
  if (!dynamic_cast<const std::bad_alloc*>(&e) && !dynamic_cast<const std::length_error*>(&e)) throw;
  fail(ExitCode::resource, "{}: the tensor is larger than the memory that can be had", source);
}

HostTensor normal_tensor(const std::string& shape, std::uint64_t seed) {
  const std::size_t cross = shape.find('x');
  const auto rows = number_of<std::int64_t>(shape.substr(0, cross)).value_or(0),
             cols = number_of<std::int64_t>(cross == shape.npos ? "" : shape.substr(cross + 1)).value_or(0);
  // 2^31 elements: 8 GiB, more than a comparison of formats needs.
  require(rows > 0 && cols > 0 && rows <= (std::int64_t{1} << 31) / cols, ExitCode::usage,
          "--normal {}: want ROWSxCOLS, such as 1024x512, with at most 2^31 elements", shape);
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
  require(is_npy(target) || is_hdf5(file_of(target)), ExitCode::usage,
          "{}: want FILE.npy, or FILE.h5 or FILE.h5:/dataset", target);
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
