// train.gather = copies: other messages, the same bits. Devices are threads.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <limits>

#include "tests/support/tensors.h"
#include "tests/train/devices/shared_run.h"
#include "train/memory/device_plan.h"

namespace mxtape::test {
namespace {

/// Matrices of several units each: devices share every one of them.
Recipe wide_recipe(std::int64_t steps, std::int64_t strands = 4) {
  Recipe r = shared_recipe(steps, strands, 1);
  r.model.width = 128;
  r.train.verify_every = 1;
  return r;
}

Recipe with_gather(Recipe recipe, Gather gather) {
  recipe.train.gather = gather;
  return recipe;
}

std::int64_t parameters_as_copies(Recipe recipe) {
  recipe.model.vocabulary = tiny_data().tokenizer.size();
  return gather_plans(with_gather(recipe, Gather::copies)).front().as_copies;
}

struct Travel {
  const char *name, *weights;
  std::int64_t as_copies;  ///< of the four matrices of a block, and an untied head
  std::function<void(Recipe&)> change = [](Recipe&) {};
};
void rule(Recipe& r, const char* slot, const char* format) {
  r.precision.rules.push_back({"*", {slot}, format, "here"});
}
void integer(Recipe& r) { r.compute.gemm = GemmChoice::integer; }
const Travel travels[] = {
    {"f32", "f32", 0},
    {"bf16", "bf16", 4},
    {"bf16_activations", "bf16 round=stochastic", 4,
     [](Recipe& r) { r.compute.activations = ActivationType::bf16; }},
    {"mxfp8", "mxfp8_e4m3 rule=rceil", 4},
    {"mxfp6", "mxfp6_e3m2", 4},
    {"mxfp4", "mxfp4 rule=even", 4},
    {"mxfp4_integer", "mxfp4 rule=even", 4, integer},
    {"stochastic", "mxfp4 round=stochastic", 4},
    {"stochastic_integer", "mxfp4 round=stochastic", 4, integer},
    {"tiles", "mxfp4 block=32x32", 4},
    {"tied_head", "mxfp4", 4, [](Recipe& r) { r.precision.head = "mxfp8_e4m3"; }},
    {"untied_head", "mxfp4", 5,
     [](Recipe& r) {
       r.model.tied_head = false;
       r.precision.head = "mxfp8_e4m3";
     }},
    {"mxint8", "mxint8", 0},
    {"mxint8_integer", "mxint8", 4,
     [](Recipe& r) {
       integer(r);
       r.precision.activations = "mxint8", r.precision.gradients = "mxint8 round=stochastic";
     }},
    {"nvfp4", "nvfp4 block=16x16", 0},
    {"nvfp4_without_outer", "nvfp4 outer=none", 4},
    {"alpha", "mxfp4 alpha=0.75 round=stochastic", 4},
    {"from_forward", "mxfp4", 4, [](Recipe& r) { rule(r, "dgrad.source", "source=forward"); }},
    {"shared", "mxfp4 block=32x32", 4, [](Recipe& r) { rule(r, "dgrad.source", "source=shared"); }},
    {"rotated", "mxfp4", 0, [](Recipe& r) { rule(r, "fprop.hadamard", "hadamard=32 signs=step"); }},
    {"straight_through", "mxfp4", 0, [](Recipe& r) { rule(r, "fprop.w.ste", "ste=mask"); }},
    {"sums_in_mxfp8", "mxfp4", 4,
     [](Recipe& r) {
       rule(r, "sum.dw", "mxfp8_e5m2 round=stochastic");
       r.compute.recompute = Recompute::norm_and_gelu;
     }},
};

class GatheredCopies : public testing::TestWithParam<Travel> {};

TEST_P(GatheredCopies, LeaveTheBitsOfARunOnAnyNumberOfDevices) {
  const Travel& kind = GetParam();
  Recipe recipe = wide_recipe(4);
  recipe.precision.weights = kind.weights;
  kind.change(recipe);
  EXPECT_EQ(parameters_as_copies(recipe), kind.as_copies);
  const Outcome want = outcome_on(0, recipe);
  ASSERT_NE(want.losses.front(), want.losses.back());
  recipe.train.gather = Gather::copies;
  for (const int devices : {0, 1, 2, 3, 4})
    EXPECT_TRUE(outcome_on(devices, recipe) == want) << devices << " devices";
}

INSTANTIATE_TEST_SUITE_P(Kinds, GatheredCopies, testing::ValuesIn(travels),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(GatheredCopies, GiveTheLossesOfValuesWithAnySeed) {
  for (const char* const weights : {"bf16", "mxfp8_e4m3", "mxfp6_e3m2", "mxfp4 round=stochastic"})
    for (std::uint64_t seed = 1; seed <= 5; ++seed) {
      Recipe recipe = wide_recipe(12, 2);
      recipe.seed = seed;
      recipe.precision.weights = weights;
      const Outcome values = outcome_on(2, with_gather(recipe, Gather::values)),
                    copies = outcome_on(2, with_gather(recipe, Gather::copies));
      EXPECT_EQ(copies.losses, values.losses) << weights << ", seed " << seed;
      EXPECT_TRUE(copies == values);
    }
}

/// All f32 values that a device has.
std::vector<std::vector<float>> values_of(Trainer& trainer, Backend& backend) {
  std::vector<std::vector<float>> all;
  for (const Parameter* p : trainer.model().parameters()) all.push_back(download(backend, p->value));
  return all;
}
bool has_nan(const std::vector<std::vector<float>>& all) {
  return std::any_of(all.begin(), all.end(), [](const auto& values) {
    return std::any_of(values.begin(), values.end(), [](float x) { return std::isnan(x); });
  });
}

TEST(GatheredCopies, OtherDevicesValuesAreNaNUntilTheyAreGathered) {
  const Recipe recipe = wide_recipe(3);
  std::vector<std::vector<float>> want;
  on_devices(0, recipe, [&](Trainer& trainer, Backend& backend) {
    trainer.step();
    want = values_of(trainer, backend);
  });
  int rank_0_lacks = 0;
  for (const Gather gather : {Gather::values, Gather::copies})
    on_devices(3, with_gather(recipe, gather), [&](Trainer& trainer, Backend& backend) {
      EXPECT_FALSE(has_nan(values_of(trainer, backend)));
      trainer.step();
      const bool lacks = has_nan(values_of(trainer, backend));
      EXPECT_EQ(lacks, gather == Gather::copies);
      rank_0_lacks += lacks;
      trainer.validate();  // needs none of them
      EXPECT_EQ(has_nan(values_of(trainer, backend)), lacks);
      gather_weights(trainer.state());
      EXPECT_EQ(values_of(trainer, backend), want);
      gather_weights(trainer.state());  // nothing is asked of anyone
      trainer.step();
    });
  EXPECT_EQ(rank_0_lacks, 1);
}

// Saving, validating, skipping and reading weights in between must leave no trace.
TEST(GatheredCopies, NothingBetweenStepsChangesWhatFollows) {
  const TemporaryFolder folder;
  const auto run = [&](int devices, Gather gather) {
    Outcome outcome;
    on_devices(devices, with_gather(wide_recipe(8), gather), [&](Trainer& trainer, Backend& backend) {
      trainer.validate();
      trainer.step();
      trainer.skip_step();
      trainer.step();
      for (const char* file : {"between.h5", "again.h5"}) {
        trainer.save(folder / file);
        std::filesystem::remove(folder / file);
      }
      EXPECT_FALSE(has_nan(values_of(trainer, backend)));
      trainer.step();
      gather_weights(trainer.state());
      trainer.validate();
      trainer.skip_step();
      trainer.validate();
      // As the program does before a step that it traces: copies are made again.
      gather_weights(trainer.state());
      for (Parameter* p : trainer.model().parameters()) p->written(p->version);
      outcome = outcome_of(trainer, folder / "end.h5");
    });
    return outcome;
  };
  const Outcome want = run(0, Gather::values);
  for (const int devices : {2, 3}) EXPECT_TRUE(run(devices, Gather::copies) == want) << devices;
}

TEST(GatheredCopies, APhaseWithOtherWeightsBeginsWithAllValues) {
  Recipe recipe = wide_recipe(8);
  recipe.precision.weights = "mxfp4 round=stochastic";
  recipe.precision.phases.push_back({.start = 2, .rules = {{"*", {"*.w"}, "mxfp8_e4m3", "here"}}});
  recipe.precision.phases.push_back({.start = 4, .rules = {{"*.up", {"*.w"}, "f32", "here"}}});
  recipe.precision.phases.push_back({.start = 6, .rules = {{"*", {"*.w"}, "nvfp4", "here"}}});
  const Outcome want = outcome_on(0, recipe);
  for (const int devices : {2, 4})
    EXPECT_TRUE(outcome_on(devices, with_gather(recipe, Gather::copies)) == want) << devices;
}

TEST(GatheredCopies, ARunGoesOnFromAnyStepOnAnyNumberWithEitherGather) {
  const TemporaryFolder folder;
  const Recipe recipe = wide_recipe(8);
  const Outcome want = outcome_on(0, recipe);
  int compared = 0;
  for (const int before : {0, 2, 3, 4}) {
    on_devices(before, with_gather(recipe, Gather::copies), [&](Trainer& trainer, Backend&) {
      for (std::int64_t step = 1; step < recipe.train.steps; ++step) {
        trainer.step();
        trainer.save(folder / fmt::format("{}.h5", step));
      }
    });
    for (std::int64_t stop = 1; stop < recipe.train.steps; ++stop) {
      const auto file = folder / fmt::format("{}.h5", stop);
      const int after = std::array{0, 2, 3, 4}[std::size_t(stop + before) % 4];
      const Gather gather = stop % 3 ? Gather::copies : Gather::values;
      on_devices(after, with_gather(recipe, gather), [&](Trainer& trainer, Backend&) {
        trainer.load(CheckpointFile(file));
        EXPECT_EQ(outcome_of(trainer, folder / "end.h5").checkpoint, want.checkpoint)
            << before << " devices to step " << stop << ", then " << after;
        ++compared;
      });
      std::filesystem::remove(file);
    }
  }
  EXPECT_EQ(compared, 28);
}

TEST(GatheredCopies, AStepThatDivergesIsExplainedAndSkippedAsOnOneDevice) {
  Recipe recipe = wide_recipe(20, 3);
  recipe.optim.learning_rate = 1e30f;
  recipe.optim.clip_norm = 0;
  recipe.schedule.warmup_steps = 0;
  const auto messages = [&](int devices, Gather gather) {
    std::vector<std::string> all;
    on_devices(devices, with_gather(recipe, gather), [&](Trainer& trainer, Backend&) {
      trainer.step();
      for (int i = 0; i < 3; ++i) {
        try {
          trainer.step();
          all.emplace_back("no error");
        } catch (const Error& e) {
          EXPECT_EQ(e.code(), ExitCode::diverged);
          all.emplace_back(e.what());
        }
        trainer.skip_step();
      }
    });
    return all;
  };
  const auto want = messages(0, Gather::values);
  EXPECT_NE(want.front().find("first seen in"), std::string::npos) << want.front();
  EXPECT_EQ(messages(2, Gather::copies), want);
  EXPECT_EQ(messages(3, Gather::copies), want);
}

// Every message of copies is larger than those of squares and losses here. One bit of each of many is
// altered.
TEST(GatheredCopies, ACodeThatIsAlteredOnItsWayIsFoundAtTheNextComparison) {
  const Recipe recipe = with_gather(wide_recipe(6, 2), Gather::copies);
  int found = 0, altered = 0;
  for (int which = 0; which < 12; ++which) {
    ThreadRanks ranks(2);
    int steps = 0, seen = 0;  // in the thread of rank 0
    ranks.tamper = [&](int from, int, std::vector<char>& bytes) {
      // Codes of MXFP4: half a byte an element, of units of 128 rows of 128 columns.
      if (from != 0 || bytes.size() % (128 * 64) != 0 || bytes.size() > 4 * 128 * 64) return;
      if (seen++ != which) return;
      bytes[bytes.size() / 2] = char(bytes[bytes.size() / 2] ^ 1);
      ++altered;
    };
    try {
      on_devices(
          2, recipe,
          [&](Trainer& trainer, Backend&) {
            while (!trainer.finished()) trainer.step(), ++steps;
          },
          &ranks);
    } catch (const Error& e) {
      EXPECT_NE(std::string(e.what()).find("come apart"), std::string::npos) << e.what();
      ++found;
    }
  }
  EXPECT_EQ(altered, 12);
  EXPECT_EQ(found, altered);
}

TEST(GatheredCopies, AValueThatIsAlteredOnItsWayIntoACheckpointIsFoundBeforeItIsWritten) {
  const TemporaryFolder folder;
  const Recipe recipe = with_gather(wide_recipe(6, 2), Gather::copies);
  ThreadRanks ranks(2);
  std::atomic<bool> saving = false;
  ranks.tamper = [&](int from, int, std::vector<char>& bytes) {
    if (saving && from == 1 && bytes.size() > 4096) bytes[1000] = char(bytes[1000] ^ 1), saving = false;
  };
  try {
    on_devices(
        2, recipe,
        [&](Trainer& trainer, Backend&) {
          trainer.step();
          saving = true;
          trainer.save(folder / "never.h5");
        },
        &ranks);
    FAIL() << "no error";
  } catch (const Error& e) {
    EXPECT_NE(std::string(e.what()).find("come apart"), std::string::npos) << e.what();
  }
  EXPECT_FALSE(saving);
  EXPECT_FALSE(std::filesystem::exists(folder / "never.h5"));
}

}  // namespace
}  // namespace mxtape::test
