#include "data/safetensors/safetensors_folder.h"

#include <set>

#include "core/error.h"
#include "core/files/status.h"
#include "data/json/json_file.h"
#include "data/json/json_section.h"

namespace mxtape {
namespace {

namespace fs = std::filesystem;

constexpr const char* single_name = "model.safetensors";
constexpr const char* index_name = "model.safetensors.index.json";

[[noreturn]] void refuse_without(const fs::path& folder) {
  std::error_code error;
  fs::directory_iterator entries(folder, error);
  for (; !error && entries != fs::directory_iterator(); entries.increment(error)) {
    const auto& entry = *entries;
    const auto ending = entry.path().extension();
    if (ending != ".bin" && ending != ".pt" && ending != ".pth") continue;
    fail(ExitCode::data,
         "{}: a file of torch.save() (pickle, which runs code when it is read), and no {} beside it. Python "
         "converts "
         "it:\n  from transformers import AutoModelForCausalLM\n"
         "  AutoModelForCausalLM.from_pretrained(\"{}\").save_pretrained(\"converted\", "
         "safe_serialization=True)",
         entry.path().string(), single_name, folder.string());
  }
  require(!error, ExitCode::resource, "{}: cannot be listed: {}", folder.string(), error.message());
  fail(ExitCode::data, "{}: holds no {} and no {}", folder.string(), single_name, index_name);
}

/// The map of an index, tensor to shard.
std::map<std::string, std::string> weight_map(const fs::path& index) {
  const std::string path = index.string();
  const nlohmann::json json = read_json_file(index);
  JsonSection shards = JsonSection(json, path, ": ").section("weight_map");
  std::map<std::string, std::string> map;
  for (const auto& tensor : shards.unknown()) {
    const std::string& name = shards.text(tensor);
    constexpr std::size_t longest_name = 255;  // of Linux's file systems
    require(!name.empty() && name.size() <= longest_name && name.find('/') == std::string::npos &&
                name.find('\0') == std::string::npos && name != "." && name != "..",
            ExitCode::data, "{}: the shard '{}' is no name of a file beside it", path, shown_name(name));
    map.emplace(tensor, name);
  }
  require(!map.empty(), ExitCode::data, "{}: its weight_map is empty", path);
  return map;
}

}  // namespace

SafetensorsFolder::SafetensorsFolder(const fs::path& folder) {
  const bool single = is_there(folder / single_name), index = is_there(folder / index_name);
  if (!single && !index) refuse_without(folder);
  if (!single) {
    read_index(folder / index_name);
    return;
  }
  source_ = std::string(single_name) +
            (index ? fmt::format(" ({} is beside it and was not read)", index_name) : "");
  files_.emplace_back(folder / single_name);
  for (const TensorInfo& tensor : files_.front().tensors())
    tensors_[tensor.name] = {&files_.front(), &tensor};
}

void SafetensorsFolder::read_index(const fs::path& index) {
  const auto map = weight_map(index);
  std::set<std::string> names;
  for (const auto& [tensor, shard] : map) names.insert(shard);
  files_.reserve(names.size());  // the entries point into it
  for (const auto& name : names) {
    const SafetensorsFile& file = files_.emplace_back(index.parent_path() / name);
    for (const TensorInfo& tensor : file.tensors()) {
      const auto listed = map.find(tensor.name);
      require(listed != map.end(), ExitCode::data, "{}: '{}' is not listed in {}", file.path().string(),
              shown_name(tensor.name), index_name);
      require(listed->second == name, ExitCode::data, "{}: '{}' is in it, and listed as of {} in {}",
              file.path().string(), shown_name(tensor.name), shown_name(listed->second), index_name);
      tensors_[tensor.name] = {&file, &tensor};
    }
  }
  for (const auto& [tensor, shard] : map)
    require(tensors_.count(tensor) > 0, ExitCode::data, "{}: '{}' is listed as of {}, which does not hold it",
            index.string(), shown_name(tensor), shown_name(shard));
  source_ = fmt::format("{}, {} shard{}", index_name, names.size(), names.size() == 1 ? "" : "s");
}

}  // namespace mxtape
