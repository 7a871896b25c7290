#include "data/safetensors/safetensors_writer.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "core/bf16.h"
#include "core/error.h"
#include "data/byte_reader.h"
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
  std::string header;
  append_bytes(header, std::uint64_t(text.size()));
  return header + text;
}

}  // namespace

SafetensorsWriter::SafetensorsWriter(const std::filesystem::path& path, std::vector<TensorInfo> tensors,
                                     const std::map<std::string, std::string>& metadata)
    : file_(path), tensors_(std::move(tensors)) {
  file_.write(header_of(tensors_, metadata));
}

const TensorInfo& SafetensorsWriter::current() {
  while (current_ < tensors_.size() && at_ == tensors_[current_].end) ++current_;
  require(current_ < tensors_.size(), "safetensors: more than was declared");
  return tensors_[current_];
}

void SafetensorsWriter::write(std::span<const float> values) {
  constexpr std::uint64_t piece = 1 << 20;  // elements that are rounded at once
  while (!values.empty()) {
    const TensorInfo& tensor = current();
    const std::uint64_t done = (at_ - tensor.begin) * 8 / bits_of(tensor.type);
    const auto part =
        values.first(std::size_t(std::min<std::uint64_t>({values.size(), tensor.count() - done, piece})));
    write_bytes(bytes_in(tensor.type, part, tensor.name, done));
    values = values.subspan(part.size());
  }
}

void SafetensorsWriter::write_bytes(std::string_view bytes) {
  const TensorInfo& tensor = current();
  require(bytes.size() <= tensor.end - at_, "safetensors: '{}' has {} bytes more than were declared",
          tensor.name, bytes.size() - (tensor.end - at_));
  file_.write(bytes);
  at_ += bytes.size();
}

void SafetensorsWriter::finish() {
  if (!tensors_.empty() && at_ != tensors_.back().end)
    fail(ExitCode::internal, "safetensors: '{}' has not all of its bytes", current().name);
  file_.finish();
}

std::string bytes_in(TensorType type, std::span<const float> values, const std::string& name,
                     std::uint64_t first) {
  if (type == TensorType::f32) return {reinterpret_cast<const char*>(values.data()), values.size_bytes()};
  require(type == TensorType::f16 || type == TensorType::bf16, "'{}' is {}; want F32, F16 or BF16", name,
          name_of(type));
  std::string bytes(2 * values.size(), '\0');
  for (std::size_t i = 0; i < values.size(); ++i) {
    const bf16 nearest = to_bf16(values[i]);
    const auto rounded = type == TensorType::f16          ? half_of_f32(values[i])
                         : std::isfinite(to_f32(nearest)) ? std::optional(nearest.bits)
                                                          : std::nullopt;
    require(rounded.has_value(), ExitCode::data,
            "'{}' holds {} at element {}, beyond the largest number of {}; want --dtype f32", name, values[i],
            first + i, name_of(type));
    std::memcpy(&bytes[2 * i], &*rounded, 2);
  }
  return bytes;
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
