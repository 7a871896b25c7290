#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace mxtape {

/// A tensor given on the command line, all axes but the last folded into rows.
struct HostTensor {
  std::string name;
  std::vector<std::int64_t> dims;
  std::vector<float> values;

  std::int64_t cols() const { return dims.empty() ? 1 : dims.back(); }
  std::int64_t rows() const { return cols() > 0 ? std::int64_t(values.size()) / cols() : 0; }
};

/// What is taken, for help and messages.
inline constexpr const char* tensor_names = "FILE.npy, FILE.safetensors:NAME or FILE.h5:/dataset";

/// One of these; name and dataset may be left out if the file has one tensor. Throws Error(data) for what
/// cannot be read, naming the tensors that are there, and for an empty one.
HostTensor load_tensor(const std::string& source);
/// The FILE of such a source.
std::string file_of(const std::string& source);
/// Standard normal numbers of a "ROWSxCOLS" tensor from a seed.
HostTensor normal_tensor(const std::string& shape, std::uint64_t seed);
/// True for the endings of HDF5 files: .h5 and .hdf5.
bool is_hdf5(const std::string& file);
/// Refuses what save_tensor would refuse, before the work.
void require_target(const std::string& target);
/// Writes "FILE.npy", or "FILE.h5:/dataset" ("/values" if it is left out); nothing else stays in the file.
/// Throws Error(usage) for another ending.
void save_tensor(const std::string& target, const HostTensor& tensor);

}  // namespace mxtape
