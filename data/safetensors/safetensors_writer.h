#pragma once
#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "core/files/output_file.h"
#include "data/safetensors/header.h"

namespace mxtape {

/// Writes a .safetensors file: the header first, padded with blanks to 8 bytes, then the tensors in the order
/// in which they were declared.
class SafetensorsWriter {
 public:
  /// Of each tensor name, type and dims; places are counted here. Throws as OutputFile.
  SafetensorsWriter(const std::filesystem::path&, std::vector<TensorInfo>,
                    const std::map<std::string, std::string>& metadata = {{"format", "pt"}});

  /// The next elements, rounded into their tensor's type, F32, F16 or BF16: bytes_in().
  void write(std::span<const float>);
  /// The next bytes of a tensor of any type.
  void write_bytes(std::string_view);
  /// Throws Error(internal) if elements are missing.
  void finish();
  std::uint64_t bytes() const { return file_.written(); }

 private:
  const TensorInfo& current();

  OutputFile file_;
  std::vector<TensorInfo> tensors_;
  std::size_t current_ = 0;
  std::uint64_t at_ = 0;  // bytes behind the header
};

/// Numbers rounded to nearest even into F32, F16 or BF16. Throws Error(data) with `name` and the index, from
/// `first` on, where that overflows.
std::string bytes_in(TensorType, std::span<const float>, const std::string& name, std::uint64_t first = 0);

/// Tensors as files: the first ones that fit, at least one, the next ones, and so on. Names
/// model.safetensors, or model-00001-of-00007.safetensors.
struct SafetensorsShard {
  std::string name;
  std::vector<TensorInfo> tensors;
};
std::vector<SafetensorsShard> plan_shards(const std::vector<TensorInfo>&, std::uint64_t shard_bytes);
/// The text of model.safetensors.index.json.
std::string index_of(const std::vector<SafetensorsShard>&);

}  // namespace mxtape
