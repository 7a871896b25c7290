#include "train/divergence/forensics.h"
#include "train/strands/losses.h"
#include "train/trainer.h"

namespace mxtape {

void Trainer::stop_diverged(const std::string& what) {
  if (exchange_) exchange_->gather_values();
  optimizer_.withdraw();
  const std::string kernel = first_nonfinite_kernel(passes_, steps_done_, recipe_.train.strands, devices_);
  const std::string tensor = first_nonfinite_tensor(backend_, model_->parameters());
  // A caller may put the cause right and go on. What was recorded uses weight copies that are gone, and the
  // gradients are the bad step's.
  optimizer_.withdraw();
  forget_steps();
  for (auto* parameter : model_->parameters()) {
    parameter->has_grad = false;
    if (!exchange_) parameter->grad = {};
  }
  if (devices_) devices_->agree();
  fail(ExitCode::diverged, "step {}: {}\n  {}\n  {}\n  the weights are still those after step {}",
       steps_done_ + 1, what, kernel, tensor, steps_done_);
}

}  // namespace mxtape
