#include "program/models/trained_model.h"

#include "kernels/choose/make_backend.h"
#include "program/models/same_tokenizer.h"
#include "program/records/run_name.h"
#include "train/saved/packed_model.h"

namespace mxtape {
namespace {

std::unique_ptr<Backend> backend_for(CheckpointHeader& header, const std::string& device) {
  ComputeConfig& compute = header.recipe.compute;
  if (!device.empty()) compute.device = device;
  if (compute.device != "cpu") compute.gemm = GemmChoice::library;
  // Own attention: it takes every precision.
  return make_backend(compute.device, {.gemm = compute.gemm_kernels()});
}

}  // namespace

PassKey TrainedModel::next_pass() const {
  return {.seed = header.recipe.seed, .step = std::uint32_t(header.step * header.recipe.train.passes())};
}

TrainedModel load_trained_model(const std::string& run, const std::string& device,
                                std::optional<GemmChoice> gemm) {
  TrainedModel loaded;
  loaded.file = checkpoint_of(run);
  const auto file = open_sealed(loaded.file);
  if (content_of(*file) == packed_content) {
    const PackedModelFile packed(file);
    loaded.header = packed.header().model;
    loaded.packed_as = packed.header().precision;
    loaded.header.recipe.compute.gemm = GemmChoice::library;  // it multiplies unpacked values
    loaded.backend = backend_for(loaded.header, device);
    loaded.model = packed.load(*loaded.backend);
    return loaded;
  }
  const CheckpointFile checkpoint(file);
  loaded.header = checkpoint.header();
  if (gemm) loaded.header.recipe.compute.gemm = *gemm;
  loaded.backend = backend_for(loaded.header, device);
  const Recipe& recipe = loaded.header.recipe;
  loaded.model =
      make_model(*loaded.backend, recipe.model, precision_plan(recipe, loaded.header.step), recipe.seed);
  checkpoint.read_parameters(*loaded.backend, loaded.model->parameters());
  return loaded;
}

MeasuredData read_data_of(const TrainedModel& trained, const std::string& given) {
  const std::string file = given.empty() ? trained.header.recipe.data.file : given;
  require(!file.empty(), ExitCode::usage,
          "{}: was imported, so it has no data of its own: name a token file with --data FILE, or evaluate a "
          "text with `eval --text FILE`",
          trained.file.string());
  require(!given.empty() || std::filesystem::exists(file), ExitCode::data,
          "{}: no such file here; {} was trained with it{}: name it with --data FILE", file,
          trained.file.string(),
          std::filesystem::path(file).is_relative() ? ", from the folder where its path holds" : "");
  MeasuredData data{file, TokenFile::read(file)};
  require_same_tokenizer(trained.header, trained.file, data.tokens, file);
  return data;
}

SavedModel open_saved_model(const std::filesystem::path& path) {
  auto file = open_sealed(path);
  if (content_of(*file) != packed_content) return {file, CheckpointFile(file).header(), ""};
  const PackedModelFile packed(file);
  return {file, packed.header().model, packed.header().precision};
}

}  // namespace mxtape
