#include "train/saved/header.h"

#include <algorithm>

#include "data/hdf5/seal.h"

namespace mxtape {
namespace {

constexpr std::size_t longest = 48 * 1024;

std::string part(const std::string& name, std::size_t index) { return name + "." + std::to_string(index); }

/// A text of any length as attributes of the file: `name` where it fits into one, else `name.0`, `name.1`
/// ..., each of 48 KiB or less. (HDF5 gives an attribute 64 KiB.)
void write_long_text(Hdf5Writer& file, const std::string& name, const std::string& text) {
  if (text.size() <= longest) return file.attribute("/", name, text);
  for (std::size_t begin = 0, index = 0; begin < text.size(); ++index) {
    std::size_t end = std::min(begin + longest, text.size());
    // Whole characters: a part that ends inside one would be no UTF-8 text.
    while (end < text.size() && (static_cast<unsigned char>(text[end]) & 0xc0) == 0x80) --end;
    file.attribute("/", part(name, index), text.substr(begin, end - begin));
    begin = end;
  }
}

/// Throws Error(data) if there is neither.
std::string read_long_text(const Hdf5Reader& file, const std::string& name) {
  if (!file.has_attribute("/", part(name, 0))) return file.text_attribute("/", name);
  std::string text;
  for (std::size_t index = 0; file.has_attribute("/", part(name, index)); ++index)
    text += file.text_attribute("/", part(name, index));
  return text;
}

}  // namespace

std::shared_ptr<const Hdf5Reader> open_sealed(const std::filesystem::path& path) {
  verify_seal(path);
  return std::make_shared<const Hdf5Reader>(path);
}

std::string content_of(const Hdf5Reader& file) {
  return file.find_text_attribute("/", "content").value_or("");
}

void write_header(Hdf5Writer& file, std::string_view content, std::int64_t layout_version,
                  const CheckpointHeader& header) {
  file.attribute("/", "content", std::string(content));
  file.attribute("/", "layout_version", layout_version);
  file.attribute("/", "step", header.step);
  write_long_text(file, "recipe", to_toml(without_whereabouts(header.recipe)));
  write_long_text(file, "tokenizer", header.tokenizer.to_json());
  file.attribute("/", "data_hash", header.data_hash);
  if (!header.lineage.empty()) write_long_text(file, "lineage", header.lineage);
  file.attribute("/", "written_by", std::string("mxtape " MXTAPE_VERSION));
}

CheckpointHeader read_header(const Hdf5Reader& file, std::int64_t layout_version) {
  const std::string name = file.path().string();
  const std::int64_t version = file.int_attribute("/", "layout_version");
  require(version == layout_version, ExitCode::data, "{}: layout version {}; this program reads version {}",
          name, version, layout_version);
  CheckpointHeader header;
  header.step = file.int_attribute("/", "step");
  header.recipe = recipe_from_toml(read_long_text(file, "recipe"), name);
  header.tokenizer = Tokenizer::from_json(read_long_text(file, "tokenizer"));
  header.data_hash = file.text_attribute("/", "data_hash");
  if (file.has_attribute("/", "lineage") || file.has_attribute("/", part("lineage", 0)))
    header.lineage = read_long_text(file, "lineage");
  header.written_by = file.find_text_attribute("/", "written_by").value_or("");
  return header;
}

Shape shape_of(const std::vector<std::int64_t>& dims) {
  Shape shape;
  shape.rank = int(std::min(dims.size(), shape.dims.size()));
  std::copy_n(dims.begin(), shape.rank, shape.dims.begin());
  return shape;
}

}  // namespace mxtape
