#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/closeness.h"
#include "tests/train/tiny_run.h"

namespace mxtape {
namespace {

using test::TinyRun;

Recipe with_batches(std::int64_t batch_size, std::int64_t accumulation) {
  Recipe r = test::tiny_recipe(2);
  r.train.batch_size = batch_size;
  r.train.accumulation = accumulation;
  return r;
}

// The loader gives three passes of 4 sequences those of one pass of 12, so both have one exact gradient. A
// path from the loss to a parameter passes 2 * 30 rounded results or less (nn/gpt_gradient_test.cpp), each a
// sum of at most 12 * 16 = 192 products, and is rounded twice more as the micro-batches' parts are scaled and
// added: that bounds the error of a gradient relative to its norm. The norm itself adds one rounding for each
// of its squares.
TEST(Trainer, AStepOfThreeMicroBatchesHasTheGradientNormAndTheLossOfOneThreeTimesAsLarge) {
  TinyRun parts(with_batches(4, 3)), whole(with_batches(12, 1));
  double squares = 0;
  for (const Parameter* p : whole.trainer.model().parameters()) squares += double(p->value.count());
  const auto a = parts.trainer.step(), b = whole.trainer.step();
  const double roundings = 60 * 193 + 2 + squares;
  EXPECT_GT(b.norm, 0);
  EXPECT_NEAR(a.norm, b.norm, 2 * test::gamma(roundings) * double(b.norm));
  EXPECT_NEAR(a.loss, b.loss, 2 * test::gamma(60 * 193) * b.loss);
}

}  // namespace
}  // namespace mxtape
