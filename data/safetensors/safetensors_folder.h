#pragma once
#include <filesystem>
#include <string>
#include <vector>

#include "data/safetensors/safetensors_file.h"

namespace mxtape {

/// The tensors of a model's folder: of model.safetensors, or of the shards that model.safetensors.index.json
/// lists.
class SafetensorsFolder {
 public:
  /// model.safetensors wins over an index, as in transformers. Throws Error(data): neither is there; a
  /// shard's name is a path; a listed tensor is not in its shard; a shard's tensor is not listed, or in two;
  /// and what SafetensorsFile refuses. Files of torch.save() are refused with the lines of Python that
  /// convert them.
  explicit SafetensorsFolder(const std::filesystem::path&);

  struct Entry {
    const SafetensorsFile* file;
    const TensorInfo* tensor;
  };
  const std::vector<SafetensorsFile>& files() const { return files_; }
  /// By name.
  const std::map<std::string, Entry>& tensors() const { return tensors_; }
  /// "model.safetensors", or "model.safetensors.index.json, 7 shards"; with what was passed over.
  const std::string& source() const { return source_; }

 private:
  void read_index(const std::filesystem::path& index);

  std::vector<SafetensorsFile> files_;
  std::map<std::string, Entry> tensors_;
  std::string source_;
};

}  // namespace mxtape
