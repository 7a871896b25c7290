#include "train/checkpoint.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "data/hdf5/long_text.h"
#include "data/hdf5/seal.h"
#include "recipes/knobs.h"

namespace mxtape {
namespace {

constexpr std::string_view content = "mxtape checkpoint";
constexpr std::int64_t layout_version = 1;

/// The path once its seal has been checked: HDF5 must not see a byte before.
std::filesystem::path verified(const std::filesystem::path& path) {
  verify_seal(path);
  return path;
}

Shape shape_of(const std::vector<std::int64_t>& dims) {
  Shape shape;
  for (auto extent : dims) {
    if (shape.rank == int(shape.dims.size())) break;
    shape.dims[std::size_t(shape.rank++)] = extent;
  }
  return shape;
}

}  // namespace

Recipe without_whereabouts(Recipe recipe) {
  Recipe defaults;
  const auto own = knobs(recipe), initial = knobs(defaults);
  for (std::size_t i = 0; i < own.size(); ++i)
    if (own[i].effect == Effect::nothing) {
      copy_value(own[i], initial[i]);
      recipe.origins.erase(std::string(own[i].name));
    }
  for (auto& [key, origin] : recipe.origins) origin = "recipe";
  for (auto& rule : recipe.precision.rules) rule.where = "recipe";
  for (auto& phase : recipe.precision.phases)
    for (auto& rule : phase.rules) rule.where = "recipe";
  return recipe;
}

void write_checkpoint(const std::filesystem::path& path, const CheckpointHeader& header, Backend& backend,
                      std::span<Parameter* const> parameters, const AdamW& optimizer) {
  require(!std::filesystem::exists(path), ExitCode::resource,
          "{}: exists already; a checkpoint is never overwritten", path.string());
  Hdf5Writer file(path);
  file.attribute("/", "content", std::string(content));
  file.attribute("/", "layout_version", layout_version);
  file.attribute("/", "step", header.step);
  file.attribute("/", "recipe", to_toml(without_whereabouts(header.recipe)));
  write_long_text(file, "tokenizer", header.tokenizer.to_json());
  file.attribute("/", "data_hash", header.data_hash);
  if (!header.lineage.empty()) file.attribute("/", "lineage", header.lineage);
  file.attribute("/", "written_by", std::string("mxtape " MXTAPE_VERSION));

  std::vector<float> host;
  const auto write = [&](const std::string& name, const Tensor& tensor) {
    host.resize(std::size_t(tensor.count()));
    backend.download(host.data(), tensor);
    const auto bad = std::find_if(host.begin(), host.end(), [](float x) { return !std::isfinite(x); });
    require(bad == host.end(), ExitCode::diverged,
            "step {}: {} holds {} at [{}] and is not saved; the checkpoints before it stay", header.step,
            name, *bad, bad - host.begin());
    file.dataset(name, tensor.shape(), DType::f32, host.data());
  };
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    write("parameters/" + parameters[i]->name, parameters[i]->value);
    write("optimizer/m/" + parameters[i]->name, optimizer.m(i));
    write("optimizer/v/" + parameters[i]->name, optimizer.v(i));
  }
  file.commit(Seal::yes);
}

CheckpointFile::CheckpointFile(const std::filesystem::path& path) : file_(verified(path)) {
  const std::string name = path.string();
  require(file_.find_text_attribute("/", "content") == content, ExitCode::data,
          "{}: not an mxtape checkpoint; want a run's folder, or a file of its checkpoints/", name);
  const std::int64_t version = file_.int_attribute("/", "layout_version");
  require(version == layout_version, ExitCode::data, "{}: layout version {}; this program reads version {}",
          name, version, layout_version);
  header_.step = file_.int_attribute("/", "step");
  header_.recipe = recipe_from_toml(file_.text_attribute("/", "recipe"), name);
  header_.tokenizer = Tokenizer::from_json(read_long_text(file_, "tokenizer"));
  header_.data_hash = file_.text_attribute("/", "data_hash");
  header_.lineage = file_.find_text_attribute("/", "lineage").value_or("");
  header_.written_by = file_.find_text_attribute("/", "written_by").value_or("");
  // Resume and retention take the newest by its name: under another step's, steps would come twice or be
  // lost.
  const std::string own = fmt::format("step_{:08}.h5", header_.step), called = path.filename().string();
  const bool says_a_step = called.size() > 8 && called.starts_with("step_") && called.ends_with(".h5") &&
                           called.find_first_not_of("0123456789", 5) == called.size() - 3;
  require(!says_a_step || called == own, ExitCode::data,
          "{}: it holds step {}, its name says another; it was renamed: give it back the name {}", name,
          header_.step, own);
}

void CheckpointFile::read_tensor(Backend& backend, const std::string& name, const Tensor& tensor) const {
  const Shape found = shape_of(file_.info(name).dims);
  require(found == tensor.shape(), ExitCode::data, "{}: '{}' is {}, the model wants {}",
          file_.path().string(), name, found.text(), tensor.shape().text());
  backend.upload(tensor, file_.read_f32(name).data());
}

void CheckpointFile::read_parameters(Backend& backend, std::span<Parameter* const> parameters) const {
  std::size_t count = 0;
  for (const auto& dataset : file_.datasets()) count += dataset.name.starts_with("parameters/");
  for (auto* parameter : parameters) {
    read_tensor(backend, "parameters/" + parameter->name, parameter->value);
    // As AdamW counts: the draws for a weight's copies are keyed by its version.
    parameter->written(std::uint64_t(header_.step) + 1);
  }
  require(count == parameters.size(), ExitCode::data, "{}: {} parameters, the model has {}",
          file_.path().string(), count, parameters.size());
}

void CheckpointFile::read_optimizer(Backend& backend, std::span<Parameter* const> parameters,
                                    AdamW& optimizer) const {
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    read_tensor(backend, "optimizer/m/" + parameters[i]->name, optimizer.m(i));
    read_tensor(backend, "optimizer/v/" + parameters[i]->name, optimizer.v(i));
  }
}

}  // namespace mxtape
