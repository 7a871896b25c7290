#include "program/trained_model.h"

#include "kernels/choose/make_backend.h"
#include "program/run_name.h"

namespace mxtape {

PassKey TrainedModel::next_pass() const {
  return {.seed = header.recipe.seed, .step = std::uint32_t(header.step * header.recipe.train.accumulation)};
}

TrainedModel load_trained_model(const std::string& run, const std::string& device) {
  TrainedModel loaded;
  loaded.file = checkpoint_of(run);
  const CheckpointFile checkpoint(loaded.file);
  loaded.header = checkpoint.header();
  ComputeConfig& compute = loaded.header.recipe.compute;
  if (!device.empty()) compute.device = device;
  if (compute.device != "cpu") compute.gemm = GemmChoice::library;
  const Recipe& recipe = loaded.header.recipe;
  // Own attention: it takes every precision.
  loaded.backend = make_backend(recipe.compute.device, {.gemm = recipe.compute.gemm_kernels()});
  loaded.model =
      make_model(*loaded.backend, recipe.model, precision_plan(recipe, loaded.header.step), recipe.seed);
  checkpoint.read_parameters(*loaded.backend, loaded.model->parameters());
  return loaded;
}

}  // namespace mxtape
