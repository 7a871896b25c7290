// A run on several devices has the bits of the run on one: ranks are threads here, which share no tensor.
#include <gtest/gtest.h>

#include <array>
#include <limits>

#include "tests/support/tensors.h"
#include "tests/train/devices/shared_run.h"
#include "train/devices/losses.h"

namespace mxtape::test {
namespace {

struct Kind {
  const char *name, *weights, *activations, *gradients, *attention;
  ActivationType type = ActivationType::f32;
  Recompute recompute = Recompute::none;
  const char* sum = nullptr;  // slot sum.dw
};
constexpr Kind kinds[] = {
    {"f32", "f32", "f32", "f32", "f32"},
    {"bf16", "bf16", "bf16", "bf16", "f32", ActivationType::bf16},
    {"mxfp8", "mxfp8_e4m3", "mxfp8_e4m3", "mxfp8_e5m2", "f32"},
    {"mxfp6", "mxfp6_e2m3", "mxfp6_e2m3", "mxfp6_e2m3 round=stochastic", "f32"},
    {"mxfp4", "mxfp4 round=stochastic", "mxfp4", "mxfp4 round=stochastic", "f32"},
    {"mxint8", "mxint8", "mxint8", "mxint8 round=stochastic", "f32"},
    {"nvfp4", "nvfp4", "nvfp4", "nvfp4 round=stochastic", "f32"},
    {"attention", "mxfp4", "mxfp4", "mxfp4 round=stochastic", "mxfp8_e4m3"},
    {"recompute", "mxfp4", "mxfp4", "mxfp4 round=stochastic", "f32", ActivationType::f32,
     Recompute::norm_and_gelu},
    {"sum_mxfp8", "mxfp4", "mxfp4", "mxfp4 round=stochastic", "f32", ActivationType::f32, Recompute::none,
     "mxfp8_e5m2 round=stochastic"},
    {"sum_nvfp4", "f32", "f32", "f32", "f32", ActivationType::f32, Recompute::none, "nvfp4 round=stochastic"},
    {"sum_bf16", "bf16", "bf16", "bf16", "f32", ActivationType::bf16, Recompute::none,
     "bf16 round=stochastic"},
};

class SharedRun : public testing::TestWithParam<Kind> {};

TEST_P(SharedRun, HasTheBitsOfOneDeviceOnAnyNumber) {
  const Kind& kind = GetParam();
  int compared = 0;
  for (const auto& [strands, accumulation] : {std::pair{8, 1}, std::pair{12, 3}}) {
    Recipe recipe = shared_recipe(4, strands, accumulation);
    recipe.precision.weights = kind.weights;
    recipe.precision.activations = kind.activations;
    recipe.precision.gradients = kind.gradients;
    recipe.precision.attention = kind.attention;
    recipe.compute.activations = kind.type;
    recipe.compute.recompute = kind.recompute;
    const Outcome in_f32 = outcome_on(0, recipe);
    if (kind.sum) recipe.precision.rules.push_back({"*", {"sum.dw"}, kind.sum, "here"});
    const Outcome want = kind.sum ? outcome_on(0, recipe) : in_f32;
    ASSERT_NE(want.losses.front(), want.losses.back());
    EXPECT_EQ(want == in_f32, kind.sum == nullptr);
    for (const int devices : {1, 2, 3, 4, 5, 6, 8}) {
      EXPECT_TRUE(outcome_on(devices, recipe) == want) << strands << " strands on " << devices << " devices";
      ++compared;
    }
  }
  EXPECT_EQ(compared, 14);
}

INSTANTIATE_TEST_SUITE_P(Kinds, SharedRun, testing::ValuesIn(kinds),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(SharedRun, StoppedAfterAnyStepOnSomeDevicesGoesOnOnOthersToTheSameBits) {
  const TemporaryFolder folder;
  const Recipe recipe = shared_recipe(12, 4, 1);
  const Outcome want = outcome_on(0, recipe);
  int compared = 0;
  for (const int before : {0, 2, 3, 4}) {
    on_devices(before, recipe, [&](Trainer& trainer, Backend&) {
      for (std::int64_t step = 1; step < recipe.train.steps; ++step) {
        trainer.step();
        trainer.save(folder / fmt::format("{}.h5", step));
      }
    });
    for (std::int64_t stop = 1; stop < recipe.train.steps; ++stop) {
      const auto file = folder / fmt::format("{}.h5", stop);
      const int after = std::array{0, 2, 3, 4}[std::size_t(stop + before) % 4];
      on_devices(after, recipe, [&](Trainer& trainer, Backend&) {
        trainer.load(CheckpointFile(file));
        EXPECT_EQ(outcome_of(trainer, folder / "end.h5").checkpoint, want.checkpoint)
            << before << " devices to step " << stop << ", then " << after;
        ++compared;
      });
      std::filesystem::remove(file);
    }
  }
  EXPECT_EQ(compared, 44);
}

// A phase and a norm above the limit: weight copies of another precision, and clipping.
TEST(SharedRun, PhasesAndSkippedStepsAreSharedToo) {
  Recipe recipe = shared_recipe(6, 3, 2);
  recipe.optim.clip_norm = 0.1f;
  recipe.precision.phases.push_back({.start = 3, .rules = {{"*", {"dgrad.dy"}, "bf16", "here"}}});
  const auto run = [&](int devices) {
    Outcome outcome;
    const TemporaryFolder folder;
    on_devices(devices, recipe, [&](Trainer& trainer, Backend&) {
      trainer.step();
      trainer.skip_step();
      outcome = outcome_of(trainer, folder / "end.h5");
    });
    return outcome;
  };
  const Outcome want = run(0);
  EXPECT_TRUE(run(2) == want);
  EXPECT_TRUE(run(3) == want);
}

TEST(SharedRun, AStepThatDivergesIsExplainedAsOnOneDeviceAndCanBeSkipped) {
  Recipe recipe = shared_recipe(20, 3, 2);
  recipe.optim.learning_rate = 1e30f;
  recipe.optim.clip_norm = 0;
  recipe.schedule.warmup_steps = 0;
  const auto messages = [&](int devices) {
    std::vector<std::string> all;
    on_devices(devices, recipe, [&](Trainer& trainer, Backend&) {
      trainer.step();
      for (int i = 0; i < 2; ++i) {
        try {
          trainer.step();
          ADD_FAILURE() << "no error";
          all.emplace_back();
        } catch (const Error& e) {
          EXPECT_EQ(e.code(), ExitCode::diverged);
          all.emplace_back(e.what());
        }
        trainer.skip_step();
      }
    });
    return all;
  };
  const auto want = messages(0);
  EXPECT_NE(want.front().find("first seen in"), std::string::npos) << want.front();
  EXPECT_EQ(messages(2), want);
  EXPECT_EQ(messages(3), want);
}

// A weight that is altered between two steps is its owner's again after the next one.
TEST(SharedRun, AWeightThatDiffersOnOneDeviceIsFoundBeforeSaving) {
  const TemporaryFolder folder;
  const Recipe recipe = shared_recipe(20, 4, 1);
  for (const std::size_t which : {0u, 3u}) {
    try {
      on_devices(2, recipe, [&](Trainer& trainer, Backend& backend) {
        trainer.step();
        const Tensor& weight = trainer.model().parameters()[which]->value;
        std::vector<float> values = download(backend, weight);
        values[3] = std::nextafter(values[3], 2.0f);
        backend.upload(weight, values.data());
        trainer.save(folder / "never.h5");
      });
      FAIL() << "no error";
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), ExitCode::internal);
      EXPECT_NE(std::string(e.what()).find("come apart"), std::string::npos) << e.what();
    }
    EXPECT_FALSE(std::filesystem::exists(folder / "never.h5"));
  }
}

// Of the three large messages of a step from one device to the other, the third has new weights. A gradient
// that is altered on its way is not found: one device adds it up, and all get the same sum.
TEST(SharedRun, AWeightThatIsAlteredOnItsWayIsFoundAtTheNextComparison) {
  Recipe recipe = shared_recipe(40, 4, 1);
  recipe.train.verify_every = 1;
  int found = 0;
  for (const int step : {1, 2, 7, 30}) {
    ThreadRanks ranks(2);
    int seen = 0;  // from rank 0, in the thread of rank 0
    ranks.tamper = [&](int from, int, std::vector<char>& bytes) {
      if (from == 0 && bytes.size() > 4096 && ++seen == 3 * step) bytes[3] = char(bytes[3] ^ 1);
    };
    int done = 0;
    try {
      on_devices(
          2, recipe,
          [&](Trainer& trainer, Backend&) {
            while (!trainer.finished()) trainer.step(), ++done;
          },
          &ranks);
    } catch (const Error& e) {
      EXPECT_NE(std::string(e.what()).find("come apart"), std::string::npos) << e.what();
      ++found;
    }
    EXPECT_EQ(done, step - 1);
  }
  EXPECT_EQ(found, 4);
}

TEST(SharedRun, ACheckpointThatCannotBeWrittenLeavesARunThatGoesOn) {
  const TemporaryFolder folder;
  const Recipe recipe = shared_recipe(3, 4, 1);
  const Outcome want = outcome_on(0, recipe);
  on_devices(3, recipe, [&](Trainer& trainer, Backend&) {
    trainer.step();
    write_atomically(folder / "file", "where a folder is wanted");
    EXPECT_THROW(trainer.save(folder / "file" / "1.h5"), Error);
    EXPECT_EQ(outcome_of(trainer, folder / "end.h5").checkpoint, want.checkpoint);
  });
}

TEST(SharedRun, WhatRankZeroGivesUpIsGivenUpByAllInTheSameTurn) {
  struct Stopped {};
  ThreadRanks ranks(3);
  std::array<int, 3> computed{};
  on_threads(ranks, [&](Devices& devices) {
    std::vector<float> numbers(20);
    const auto compute = [&](std::size_t i) {
      ++computed[std::size_t(devices.rank())];
      if (i == 3) throw Stopped{};  // the second of rank 0
      return float(i);
    };
    if (devices.rank() == 0) {
      EXPECT_THROW(compute_shared(numbers, &devices, compute), Stopped);
    } else {
      compute_shared(numbers, &devices, compute);
      devices.agree();
      EXPECT_EQ(numbers[2], 2) << "what was shared before is there";
    }
  });
  EXPECT_EQ(computed, (std::array{2, 2, 2}));
}

TEST(SharedRun, AValidationThatRankZeroGivesUpLeavesARunThatGoesOn) {
  struct Stopped {};
  const Recipe recipe = shared_recipe(3, 4, 1);
  const TemporaryFolder folder;
  const Outcome want = outcome_on(0, recipe);
  on_devices(2, recipe, [&](Trainer& trainer, Backend&) {
    trainer.step();
    EXPECT_THROW(trainer.validate([](auto, auto) { throw Stopped{}; }), Stopped);
    EXPECT_EQ(outcome_of(trainer, folder / "end.h5").checkpoint, want.checkpoint);
  });
}

}  // namespace
}  // namespace mxtape::test
