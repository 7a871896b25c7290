#include <cmath>

#include "train/devices/losses.h"
#include "train/trainer.h"

namespace mxtape {
namespace {

/// Names the first tensor that holds NaN or infinity: parameters in the order of computation, then gradients
/// in the order of the backward pass. Of several strands a device has but some gradients, which say nothing.
std::string first_nonfinite_tensor(Backend& backend, std::span<Parameter* const> parameters, bool gradients) {
  const auto search = [&](const char* kind, const Parameter& parameter, const Tensor& tensor) -> std::string {
    const std::int64_t at = tensor ? backend.first_nonfinite(tensor) : -1;
    if (at < 0) return "";
    return fmt::format("the first tensor that is not finite: {} '{}' {}, element {}", kind, parameter.name,
                       tensor.shape().text(), at);
  };
  for (const auto* p : parameters)
    if (auto found = search("parameter", *p, p->value); !found.empty()) return found;
  for (auto p = parameters.rbegin(); gradients && p != parameters.rend(); ++p)
    if (auto found = search("gradient of", **p, (*p)->grad); !found.empty()) return found;
  return gradients ? "every parameter, and every gradient made so far, is finite"
                   : "every parameter is finite";
}

}  // namespace

void Trainer::require_finite(double number, const char* what) {
  if (std::isfinite(number)) return;
  if (step_.exchange()) step_.exchange()->gather_values();
  step_.optimizer().withdraw();
  const std::string kernel =
      first_nonfinite_kernel(step_.passes(), steps_done_, recipe_.train.strands, devices_);
  const std::string tensor =
      first_nonfinite_tensor(backend_, model_->parameters(), recipe_.train.strands == 1);
  // A caller may put the cause right and go on. What was recorded uses weight copies that are gone, and the
  // gradients are the bad step's.
  step_.optimizer().withdraw();
  step_.forget();
  for (auto* parameter : model_->parameters()) {
    parameter->has_grad = false;
    if (!step_.exchange()) parameter->grad = {};
  }
  if (devices_) devices_->agree();
  fail(ExitCode::diverged, "step {}: {} is {}\n  {}\n  {}\n  the weights are still those after step {}",
       steps_done_ + 1, what, std::isnan(number) ? "nan" : "infinite", kernel, tensor, steps_done_);
}

}  // namespace mxtape
