#pragma once
#include <gtest/gtest.h>

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "core/files/atomic_file.h"
#include "tests/support/thread_ranks.h"
#include "tests/train/tiny_run.h"
#include "train/devices/follow.h"

// Whole runs on devices that are threads of the test, which share no tensor.
namespace mxtape::test {

/// Small enough that a step takes a few milliseconds, with matrices of several units.
inline Recipe shared_recipe(std::int64_t steps, std::int64_t strands, std::int64_t accumulation) {
  Recipe r = tiny_mxfp4_recipe(steps);
  r.model = {.layers = 1, .heads = 2, .width = 64, .context = 8, .dropout = 0.1f};
  r.train.batch_size = 1;
  r.train.strands = strands;
  r.train.accumulation = accumulation;
  r.train.eval_windows = 5;
  return r;
}

/// All that a run says and leaves behind.
struct Outcome {
  std::vector<double> losses, norms;
  double validation = 0;
  std::string checkpoint;
  bool operator==(const Outcome&) const = default;
};

/// Runs `lead` on the trainer of rank 0 of so many devices; 0: on a trainer without any.
inline void on_devices(int count, const Recipe& recipe, const std::function<void(Trainer&, Backend&)>& lead,
                       ThreadRanks* given = nullptr) {
  const TokenFile data = tiny_data();
  if (count == 0) {
    const auto backend = make_backend("cpu", recipe.compute.options());
    Trainer trainer(*backend, recipe, data);
    return lead(trainer, *backend);
  }
  ThreadRanks own(count);
  ThreadRanks& ranks = given ? *given : own;
  on_threads(ranks, [&](Devices& devices) {
    const auto backend = make_backend("cpu", recipe.compute.options());
    if (devices.rank() > 0) return follow(devices, data, backend.get());
    {
      Trainer trainer(*backend, recipe, data, &devices);
      lead(trainer, *backend);
    }
    devices.announce("end", "0");
  });
  if (!given) {
    EXPECT_EQ(ranks.left_over(), 0u);
  }
}

inline Outcome outcome_of(Trainer& trainer, const std::filesystem::path& file) {
  Outcome outcome;
  while (!trainer.finished()) {
    const auto step = trainer.step();
    outcome.losses.push_back(step.loss);
    outcome.norms.push_back(double(step.norm));
  }
  outcome.validation = trainer.validate().loss;
  trainer.save(file);
  const auto bytes = read_whole(file);
  outcome.checkpoint.assign(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  std::filesystem::remove(file);
  return outcome;
}

inline Outcome outcome_on(int devices, const Recipe& recipe) {
  const TemporaryFolder folder;
  Outcome outcome;
  on_devices(devices, recipe,
             [&](Trainer& trainer, Backend&) { outcome = outcome_of(trainer, folder / "end.h5"); });
  return outcome;
}

}  // namespace mxtape::test
