#include "program/telemetry/inspect.h"

#include <algorithm>
#include <set>
#include <tuple>

#include "kernels/choose/make_backend.h"
#include "program/resume.h"
#include "program/run_name.h"
#include "program/telemetry/weights.h"
#include "train/trainer.h"

namespace mxtape {
namespace {

/// "dy" of "dgrad.dy".
std::string tensor_of(const std::string& slot) { return slot.substr(slot.find('.') + 1); }

/// Every slot once in each format, as it was met first: weights before the update.
void keep_first(std::vector<Measurements::Operand>& operands) {
  std::set<std::tuple<std::string, std::string, std::string>> seen;
  std::erase_if(operands,
                [&](const auto& o) { return !seen.emplace(o.layer, o.slot, to_text(o.quantizer)).second; });
}

}  // namespace

Inspection inspect(const std::string& run, const InspectOptions& options) {
  Inspection result;
  const std::filesystem::path file = checkpoint_of(run);
  const CheckpointFile checkpoint(file);
  result.checkpoint = file.string();
  result.step = checkpoint.header().step;
  Recipe recipe = checkpoint.header().recipe;
  if (!options.device.empty() && options.device != recipe.compute.device) {
    recipe.compute.device = options.device;
    recipe.compute.gemm = GemmChoice::library;  // codes are the CPU's alone
    recipe.compute.attention = AttentionKernels::own;
  }
  result.data = options.data.empty() ? recipe.data.file : options.data;
  const TokenFile data = TokenFile::read(result.data);
  require_same_tokenizer(checkpoint.header(), file, data, result.data);
  const auto device = make_backend(recipe.compute.device, recipe.compute.options());
  Measure::Options measuring{options.formats, options.sample};
  if (options.spectra)
    measuring.look = [&](const std::string& layer, const std::string& slot, const std::vector<float>& x,
                         std::int64_t rows, std::int64_t cols) {
      const std::pair place(layer, tensor_of(slot));
      if (!result.spectra.contains(place)) result.spectra[place] = spectrum_of(x.data(), rows, cols);
    };
  Measure measure(std::move(measuring));
  ObservingBackend backend(*device, {&measure});
  Trainer trainer(backend, recipe, data);
  trainer.load(checkpoint);
  Oscillation oscillation(backend, trainer.model().linear_weights(), options.sample);
  oscillation.begin();
  start(measure, backend, trainer.model());
  trainer.step();
  result.found = measure.stop();
  oscillation.look();
  result.weights = oscillation.end();
  keep_first(result.found.operands);
  result.recipe = trainer.recipe();
  return result;
}

}  // namespace mxtape
