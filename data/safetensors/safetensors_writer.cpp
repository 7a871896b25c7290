#include "data/safetensors/safetensors_writer.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

#include "core/bf16.h"
#include "core/error.h"
#include "data/half.h"

namespace mxtape {
namespace {

std::uint64_t stored_bytes(const TensorInfo& tensor) { return tensor.count() * bits_of(tensor.type) / 8; }

/// Places the tensors one behind the other and returns the header, length first.
std::string header_of(std::vector<TensorInfo>& tensors, const std::map<std::string, std::string>& metadata) {
  nlohmann::ordered_json json;
  if (!metadata.empty()) json["__metadata__"] = metadata;
  std::uint64_t at = 0;
  for (TensorInfo& tensor : tensors) {
    tensor.begin = at;
    tensor.end = at += stored_bytes(tensor);
    require(!json.contains(tensor.name), "safetensors: '{}' is declared twice", tensor.name);
    json[tensor.name] = {{"dtype", name_of(tensor.type)},
                         {"shape", tensor.dims},
                         {"data_offsets", {tensor.begin, tensor.end}}};
  }
  std::string text = json.dump();
  constexpr std::size_t alignment = 8;
  text.append((alignment - text.size() % alignment) % alignment, ' ');
  std::string length(sizeof(std::uint64_t), '\0');
  for (std::size_t i = 0; i < length.size(); ++i) length[i] = char(std::uint64_t(text.size()) >> (8 * i));
  return length + text;
}

}  // namespace

SafetensorsWriter::SafetensorsWriter(const std::filesystem::path& path, std::vector<TensorInfo> tensors,
                                     const std::map<std::string, std::string>& metadata)
    : file_(path), tensors_(std::move(tensors)) {
  for (const TensorInfo& tensor : tensors_)
    require(
        tensor.type == TensorType::f32 || tensor.type == TensorType::f16 || tensor.type == TensorType::bf16,
        "safetensors: '{}' is {}; want F32, F16 or BF16", tensor.name, tensor.text());
  file_.write(header_of(tensors_, metadata));
}

void SafetensorsWriter::write(std::span<const float> values) {
  std::vector<std::uint16_t> narrow;
  while (!values.empty()) {
    while (current_ < tensors_.size() && done_ == tensors_[current_].count()) ++current_, done_ = 0;
    require(current_ < tensors_.size(), "safetensors: {} elements more than were declared", values.size());
    const TensorInfo& tensor = tensors_[current_];
    const auto part =
        values.first(std::size_t(std::min<std::uint64_t>(values.size(), tensor.count() - done_)));
    if (tensor.type == TensorType::f32) {
      file_.write(std::as_bytes(part));
    } else {
      narrow.resize(part.size());
      for (std::size_t i = 0; i < part.size(); ++i) {
        const auto rounded = tensor.type == TensorType::f16 ? half_of_f32(part[i]) : to_bf16(part[i]).bits;
        const bool fits =
            rounded && (tensor.type == TensorType::f16 || std::isfinite(to_f32(bf16{*rounded})));
        require(fits, ExitCode::data,
                "'{}' holds {} at element {}, beyond the largest number of {}; want --dtype f32", tensor.name,
                part[i], done_ + i, name_of(tensor.type));
        narrow[i] = *rounded;
      }
      file_.write(std::as_bytes(std::span(narrow)));
    }
    done_ += part.size();
    values = values.subspan(part.size());
  }
}

void SafetensorsWriter::finish() {
  while (current_ < tensors_.size() && done_ == tensors_[current_].count()) ++current_, done_ = 0;
  require(current_ == tensors_.size(), "safetensors: '{}' has {} of its elements", tensors_[current_].name,
          done_);
  file_.finish();
}

std::vector<SafetensorsShard> plan_shards(const std::vector<TensorInfo>& tensors, std::uint64_t shard_bytes) {
  std::vector<SafetensorsShard> shards(1);
  std::uint64_t bytes = 0;
  for (const TensorInfo& tensor : tensors) {
    if (!shards.back().tensors.empty() && bytes + stored_bytes(tensor) > shard_bytes)
      shards.emplace_back(), bytes = 0;
    shards.back().tensors.push_back(tensor);
    bytes += stored_bytes(tensor);
  }
  for (std::size_t i = 0; i < shards.size(); ++i)
    shards[i].name = shards.size() == 1
                         ? "model.safetensors"
                         : fmt::format("model-{:05}-of-{:05}.safetensors", i + 1, shards.size());
  return shards;
}

std::string index_of(const std::vector<SafetensorsShard>& shards) {
  nlohmann::ordered_json json{{"metadata", {{"total_size", 0}}},
                              {"weight_map", nlohmann::ordered_json::object()}};
  std::uint64_t total = 0;
  for (const SafetensorsShard& shard : shards)
    for (const TensorInfo& tensor : shard.tensors) {
      json["weight_map"][tensor.name] = shard.name;
      total += stored_bytes(tensor);
    }
  json["metadata"]["total_size"] = total;
  return json.dump(2) + "\n";
}

}  // namespace mxtape
