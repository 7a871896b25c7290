#include "program/run/inspect.h"

#include <algorithm>
#include <set>
#include <tuple>

#include "program/plan/run_plan.h"
#include "program/records/run_name.h"
#include "program/records/weights.h"

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
  Beginning begin;
  begin.file = checkpoint_of(run);
  begin.checkpoint.emplace(*begin.file);
  RunPlan plan(begin.checkpoint->header().recipe);
  result.checkpoint = begin.file->string();
  result.step = begin.checkpoint->header().step;
  plan.begin = std::move(begin);
  compute_again(plan, options.device, options.data);
  result.data = plan.recipe.data.file;
  plan_through(plan, Station::memory);
  Measure::Options measuring{options.formats, options.sample};
  if (options.spectra)
    measuring.look = [&](const std::string& layer, const std::string& slot, const std::vector<float>& x,
                         std::int64_t rows, std::int64_t cols) {
      const std::pair place(layer, tensor_of(slot));
      if (!result.spectra.contains(place)) result.spectra[place] = spectrum_of(x.data(), rows, cols);
    };
  Measure measure(std::move(measuring));
  ObservingBackend backend(*plan.device, {&measure});
  const auto trainer = open_trainer(plan, backend);
  Oscillation oscillation(backend, trainer->model().linear_weights(), options.sample);
  oscillation.begin();
  start(measure, backend, trainer->model());
  trainer->step();
  result.found = measure.stop();
  oscillation.look();
  result.weights = oscillation.end();
  keep_first(result.found.operands);
  result.recipe = trainer->recipe();
  return result;
}

}  // namespace mxtape
