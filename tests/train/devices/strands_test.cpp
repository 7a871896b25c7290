#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/files/atomic_file.h"
#include "tests/support/closeness.h"
#include "tests/support/tensors.h"
#include "tests/train/tiny_run.h"

namespace mxtape::test {
namespace {

Recipe with_strands(std::int64_t steps, std::int64_t strands, std::int64_t accumulation) {
  Recipe r = tiny_mxfp4_recipe(steps);
  r.train.strands = strands;
  r.train.accumulation = accumulation;
  return r;
}

/// Parameters of a few shapes, with a plain sum of the strands' gradients beside.
struct Sums {
  std::unique_ptr<Backend> backend = make_backend("cpu");
  std::vector<Shape> shapes{{70, 300}, {33}, {513, 65}, {1}};
  std::vector<Parameter> parameters{
      {.name = "a"}, {.name = "b", .decay = false}, {.name = "c"}, {.name = "d"}};
  std::vector<Parameter*> pointers;

  Sums() {
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      parameters[i].value = upload(*backend, shapes[i], normals(shapes[i].count(), unsigned(i)));
      pointers.push_back(&parameters[i]);
    }
  }
  std::vector<float> gradient(std::size_t i, std::int64_t strand) const {
    std::vector<float> g = normals(shapes[i].count(), unsigned(100 * (strand + 1) + std::int64_t(i)));
    g[0] = -0.0f;  // which a sum that begins with zero would lose
    return g;
  }
};

void add_to(std::vector<float>& sum, const std::vector<float>& x) {
  for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += x[i];
}

// Without clipping the factor is 1, and AdamW sees the sums themselves.
TEST(Strands, AdamWGetsTheSumInGroupsOfEightBitForBit) {
  for (const std::int64_t strands : {2, 8, 9, 19}) {
    const AdamWConfig config{.clip_norm = 0};
    Sums folded, plain;
    AdamW optimizer(*folded.backend, folded.pointers, config),
        reference(*plain.backend, plain.pointers, config);
    Exchange exchange(*folded.backend, folded.pointers, strands, nullptr);
    for (std::int64_t s = 0; s < strands; ++s) {
      for (std::size_t i = 0; i < folded.pointers.size(); ++i) {
        folded.backend->upload(folded.pointers[i]->grad, folded.gradient(i, s).data());
        folded.pointers[i]->has_grad = true;
      }
      exchange.begin_round(s, {});
      exchange.end_strand();
      exchange.add_round();
    }
    for (std::size_t i = 0; i < plain.pointers.size(); ++i) {
      std::vector<float> total;
      for (std::int64_t first = 0; first < strands; first += 8) {
        std::vector<float> group = plain.gradient(i, first);
        for (std::int64_t s = first + 1; s < std::min(first + 8, strands); ++s)
          add_to(group, plain.gradient(i, s));
        if (first == 0)
          total = group;
        else
          add_to(total, group);
      }
      plain.pointers[i]->grad = upload(*plain.backend, plain.shapes[i], total);
      plain.pointers[i]->has_grad = true;
    }
    optimizer.prepare(1), reference.prepare(1);
    float norm = 0, wanted = 0;
    folded.backend->download(&norm, exchange.update(optimizer, "update"));
    plain.backend->download(&wanted, reference.update());
    // Both add squares in double, in another order, and round the root.
    EXPECT_NEAR(norm, wanted, 2.001 * double(unit_roundoff) * double(wanted));
    for (std::size_t i = 0; i < plain.pointers.size(); ++i) {
      EXPECT_EQ(download(*folded.backend, folded.pointers[i]->value),
                download(*plain.backend, plain.pointers[i]->value));
      EXPECT_EQ(download(*folded.backend, optimizer.m(i)), download(*plain.backend, reference.m(i)));
      EXPECT_EQ(download(*folded.backend, optimizer.v(i)), download(*plain.backend, reference.v(i)));
    }
  }
}

TEST(Strands, AParameterWithoutAGradientIsNamed) {
  Sums sums;
  Exchange exchange(*sums.backend, sums.pointers, 2, nullptr);
  for (Parameter* p : sums.pointers) p->has_grad = true;
  sums.parameters[2].has_grad = false;
  try {
    exchange.end_strand();
    FAIL() << "no error";
  } catch (const Error& e) {
    EXPECT_NE(std::string(e.what()).find("'c'"), std::string::npos) << e.what();
  }
}

// The first step's passes have the same keys and weights, however they are cut into strands, and the losses
// are added in one order. Their gradients are added in another.
TEST(Strands, TheFirstLossIsThatOfAsManyMicroBatchesInARow) {
  TinyRun row(with_strands(1, 1, 6)), strands(with_strands(1, 3, 2)), single(with_strands(1, 6, 1));
  const double loss = row.trainer.step().loss;
  EXPECT_EQ(strands.trainer.step().loss, loss);
  EXPECT_EQ(single.trainer.step().loss, loss);
}

TEST(Strands, ARunThatStopsAfterAnyStepGoesOnToTheSameBits) {
  const TemporaryFolder folder;
  const Recipe recipe = with_strands(8, 3, 2);
  TinyRun whole(recipe);
  for (std::int64_t step = 0; step < recipe.train.steps; ++step) {
    whole.trainer.save(folder / fmt::format("{}.h5", step));
    whole.trainer.step();
  }
  whole.trainer.save(folder / "whole.h5");
  for (std::int64_t stop = 1; stop < recipe.train.steps; ++stop) {
    TinyRun resumed(recipe);
    resumed.trainer.load(CheckpointFile(folder / fmt::format("{}.h5", stop)));
    resumed.run(recipe.train.steps);
    resumed.trainer.save(folder / "resumed.h5");
    EXPECT_TRUE(read_whole(folder / "resumed.h5") == read_whole(folder / "whole.h5"))
        << "stopped at " << stop;
    std::filesystem::remove(folder / "resumed.h5");
  }
}

TEST(Strands, AStepThatDivergesLeavesWeightsAndTheNextStepAsTheyWere) {
  const Recipe recipe = with_strands(20, 3, 2);
  double want = 0;
  for (const bool disturbed : {false, true}) {
    TinyRun run(recipe);
    run.run(3);
    if (disturbed) {
      Parameter& gain = *run.trainer.model().parameters().back();
      const std::vector<float> kept = download(*run.backend, gain.value);
      run.backend->fill(gain.value, std::numeric_limits<float>::infinity());
      try {
        run.trainer.step();
        FAIL() << "no error";
      } catch (const Error& e) {
        EXPECT_EQ(e.code(), ExitCode::diverged);
        EXPECT_NE(std::string(e.what()).find("first seen in"), std::string::npos) << e.what();
      }
      run.backend->upload(gain.value, kept.data());
    }
    run.run(6);
    const double loss = run.trainer.step().loss;
    if (disturbed)
      EXPECT_EQ(loss, want);
    else
      want = loss;
  }
}

}  // namespace
}  // namespace mxtape::test
