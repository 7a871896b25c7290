#include "train/saved/header.h"

#include "data/hdf5/long_text.h"
#include "data/hdf5/seal.h"

namespace mxtape {

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
  header.lineage = find_long_text(file, "lineage").value_or("");
  header.written_by = file.find_text_attribute("/", "written_by").value_or("");
  return header;
}

Shape shape_of(const std::vector<std::int64_t>& dims) {
  Shape shape;
  for (auto extent : dims) {
    if (shape.rank == int(shape.dims.size())) break;
    shape.dims[std::size_t(shape.rank++)] = extent;
  }
  return shape;
}

}  // namespace mxtape
