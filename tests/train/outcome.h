#pragma once
#include <utility>

#include "tests/support/tensors.h"
#include "tests/train/tiny_run.h"

namespace mxtape::test {

/// All bits that a run leaves behind, and the most memory that it had.
struct Outcome {
  std::vector<std::vector<float>> bits;  ///< losses and norms, then the weights
  std::int64_t peak = 0;
};

inline Outcome outcome_of(Recipe recipe, std::unique_ptr<Backend> device) {
  TinyRun run(std::move(recipe), std::move(device));
  Outcome outcome{{{}}};
  while (!run.trainer.finished()) {
    const auto result = run.trainer.step();
    outcome.bits[0].push_back(float(result.loss));
    outcome.bits[0].push_back(result.norm);
  }
  for (const Parameter* p : run.trainer.model().parameters())
    outcome.bits.push_back(download(*run.backend, p->value));
  outcome.peak = run.backend->peak_bytes();
  return outcome;
}

}  // namespace mxtape::test
