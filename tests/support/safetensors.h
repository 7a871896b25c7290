#pragma once
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "core/error.h"

namespace mxtape::test {

/// The F32, F64 and I32 tensors of a file of test vectors, which is trusted.
class Safetensors {
 public:
  explicit Safetensors(const std::string& path) {
    std::ostringstream all;
    all << std::ifstream(path, std::ios::binary).rdbuf();
    bytes_ = all.str();
    require(bytes_.size() > 8, "{}: {} bytes", path, bytes_.size());
    std::uint64_t header = 0;
    std::memcpy(&header, bytes_.data(), sizeof header);
    json_ = nlohmann::json::parse(bytes_.substr(8, header));
    begin_ = 8 + header;
  }
  bool has(const std::string& name) const { return json_.contains(name); }
  std::string metadata(const std::string& key) const { return json_.at("__metadata__").at(key); }
  std::vector<std::string> metadata_keys() const {
    std::vector<std::string> keys;
    for (const auto& [key, value] : json_.at("__metadata__").items()) keys.push_back(key);
    return keys;
  }
  std::vector<std::int64_t> shape(const std::string& name) const { return json_.at(name).at("shape"); }
  template <class T>
  std::vector<T> values(const std::string& name) const {
    const auto& tensor = json_.at(name);
    require(tensor.at("dtype") == (std::is_same_v<T, float>    ? "F32"
                                   : std::is_same_v<T, double> ? "F64"
                                                               : "I32"),
            "{} is {}", name, tensor.at("dtype").get<std::string>());
    const std::size_t begin = tensor.at("data_offsets")[0], end = tensor.at("data_offsets")[1];
    std::vector<T> values((end - begin) / sizeof(T));
    std::memcpy(values.data(), bytes_.data() + begin_ + begin, end - begin);
    return values;
  }

 private:
  std::string bytes_;
  nlohmann::json json_;
  std::size_t begin_ = 0;
};

}  // namespace mxtape::test
