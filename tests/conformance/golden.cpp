#include "tests/conformance/golden.h"

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "core/files/atomic_file.h"
#include "core/text/short_lines.h"
#include "tests/conformance/sha256.h"

namespace mxtape::conformance {
namespace {

using nlohmann::json;

std::vector<char> read_all(const std::filesystem::path& path) {
  try {
    const auto bytes = read_whole(path);
    const auto* const begin = reinterpret_cast<const char*>(bytes.data());
    return {begin, begin + bytes.size()};
  } catch (const Error& e) {
    fail(e.code(), "conformance: {}", e.what());
  }
}

bool is_reference(const json& value) {
  return value.is_array() && value.size() == 3 && value[0].is_string() && value[1].is_number_integer();
}
bool is_extents(const json& value) {
  return value.is_array() && !value.empty() && value[0].is_number_integer();
}

template <class Map>
const typename Map::mapped_type& find(const Map& map, const std::string& name, const std::string& field) {
  const auto at = map.find(field);
  require(at != map.end(), ExitCode::data, "conformance: case {} has no field '{}'", name, field);
  return at->second;
}

}  // namespace

bool Case::has(const std::string& field) const {
  return texts_.count(field) + numbers_.count(field) + extents_.count(field) + arrays_.count(field) > 0;
}
const std::string& Case::text(const std::string& field) const { return find(texts_, name, field); }
std::string Case::text_or(const std::string& field, const std::string& otherwise) const {
  return texts_.count(field) ? text(field) : otherwise;
}
double Case::number(const std::string& field) const { return find(numbers_, name, field); }
double Case::number_or(const std::string& field, double otherwise) const {
  return numbers_.count(field) ? number(field) : otherwise;
}
bool Case::has_tag(const std::string& tag) const {
  return std::find(tags_.begin(), tags_.end(), tag) != tags_.end();
}
std::vector<std::int64_t> Case::extents(const std::string& field) const {
  return find(extents_, name, field);
}

Case::Bytes Case::bytes(const std::string& field, std::string_view type, std::size_t width,
                        Count count) const {
  const Reference& r = find(arrays_, name, field);
  require(r.type == type, ExitCode::data, "conformance: case {}: {} is {}, want {}", name, field, r.type,
          type);
  const auto size = std::int64_t(blob_->size());
  require(
      r.offset >= 0 && r.offset <= size && r.count >= 0 && r.count <= (size - r.offset) / std::int64_t(width),
      ExitCode::data, "conformance: case {}: {} lies outside the blob of {} bytes", name, field, size);
  const auto found = std::size_t(r.count);
  require(!count || found == *count, ExitCode::data, "conformance: case {}: {} has {} values, want {}", name,
          field, found, count.value_or(0));
  require(found > 0, ExitCode::data, "conformance: case {}: {} has no values; want at least one to compare",
          name, field);
  return {blob_->data() + r.offset, found};
}

std::vector<float> Case::floats(const std::string& field, Count count) const {
  const auto [from, found] = bytes(field, "u32", 4, count);
  std::vector<float> values(found);
  std::memcpy(values.data(), from, values.size() * 4);
  return values;
}
std::vector<double> Case::doubles(const std::string& field, Count count) const {
  const auto [from, found] = bytes(field, "f64", 8, count);
  std::vector<double> values(found);
  std::memcpy(values.data(), from, values.size() * 8);
  return values;
}
std::vector<std::int32_t> Case::integers(const std::string& field, Count count) const {
  const bool wide = find(arrays_, name, field).type == "i16";
  const auto [from, found] = bytes(field, wide ? "i16" : "u8", wide ? 2 : 1, count);
  std::vector<std::int32_t> values(found);
  for (std::size_t i = 0; i < values.size(); ++i) {
    std::int16_t word = 0;
    if (wide) std::memcpy(&word, from + 2 * i, 2);
    values[i] = wide ? word : std::int32_t(static_cast<unsigned char>(from[i]));
  }
  return values;
}

GoldenSet::GoldenSet(const std::filesystem::path& folder) {
  const auto manifest_path = folder / "manifest.json";
  require(std::filesystem::exists(manifest_path), ExitCode::data,
          "conformance: {} is no golden set: it has no manifest.json; {}", folder.string(),
          where_sets_come_from);
  const auto text = read_all(manifest_path);
  try {
    const json manifest = json::parse(text.begin(), text.end());
    const std::string schema = manifest.at("schema");
    require(schema == "mxgold-1", ExitCode::data, "conformance: {} has schema '{}', want mxgold-1",
            manifest_path.string(), schema);
    const std::string blob_name = manifest.at("blob");
    blob_ = read_all(folder / blob_name);
    const std::int64_t bytes = manifest.at("blob_bytes");
    require(std::int64_t(blob_.size()) == bytes, ExitCode::data,
            "conformance: {} has {} bytes, the manifest says {}", (folder / blob_name).string(), blob_.size(),
            bytes);
    const std::string digest = manifest.at("blob_sha256");
    const std::string found = sha256(blob_);
    require(found == digest, ExitCode::data,
            "conformance: {} has sha256 {}, the manifest says {}; the set was altered or its files do not "
            "belong together",
            (folder / blob_name).string(), found, digest);
    title_ =
        fmt::format("{} (seed {}, {} bytes)", manifest.value("set", "set"), manifest.value("seed", 0), bytes);
    for (const json& source : manifest.at("cases")) {
      Case c;
      c.name = source.at("name");
      c.blob_ = &blob_;
      const auto take = [&](const auto& self, const json& object, const std::string& prefix) -> void {
        for (const auto& [key, value] : object.items()) {
          const std::string field = prefix + key;
          if (value.is_string())
            c.texts_[field] = value;
          else if (value.is_boolean())
            c.numbers_[field] = value.template get<bool>() ? 1 : 0;
          else if (value.is_number())
            c.numbers_[field] = value;
          else if (value.is_object())
            self(self, value, field + ".");
          else if (is_reference(value))
            c.arrays_[field] = {value[0], value[1], value[2]};
          else if (is_extents(value))
            c.extents_[field] = value.template get<std::vector<std::int64_t>>();
          else if (field == "tags")
            c.tags_ = value.template get<std::vector<std::string>>();
        }
      };
      take(take, source, "");
      cases_.push_back(std::move(c));
    }
    require(!cases_.empty(), ExitCode::data, "conformance: {} has no cases; want at least one",
            manifest_path.string());
    const std::int64_t promised = manifest.value("case_count", std::int64_t(cases_.size()));
    require(std::int64_t(cases_.size()) == promised, ExitCode::data,
            "conformance: {} has {} cases, its case_count says {}; the set was cut or added to",
            manifest_path.string(), cases_.size(), promised);
  } catch (const json::exception& e) {
    fail(ExitCode::data, "conformance: {}: {}", manifest_path.string(), json_reason(e));
  }
}

}  // namespace mxtape::conformance
