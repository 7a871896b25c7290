#pragma once
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <vector>

#include "tests/support/tensors.h"
#include "tests/train/tiny_run.h"

namespace mxtape::test {

inline Backend& the_cpu() {
  static const std::unique_ptr<Backend> backend = make_backend("cpu");
  return *backend;
}

/// What steps report. AdamW takes little notice of a gradient's size, so losses alone would not show that one
/// is wrong.
struct Course {
  std::vector<double> losses, norms;
  bool operator==(const Course&) const = default;
};

/// A trainer on a backend that it does not own.
struct RunOn {
  Backend& backend;
  TokenFile data = tiny_data();
  Trainer trainer;

  RunOn(Backend& on, const Recipe& recipe) : backend(on), trainer(on, recipe, data) {}

  Course steps(std::int64_t count) {
    Course course;
    for (std::int64_t i = 0; i < count; ++i) {
      const auto result = trainer.step();
      course.losses.push_back(result.loss);
      course.norms.push_back(double(result.norm));
    }
    return course;
  }
  std::vector<std::vector<float>> weights() {
    std::vector<std::vector<float>> all;
    for (const Parameter* p : trainer.model().parameters()) all.push_back(download(backend, p->value));
    return all;
  }
  /// Moves every weight at random by at most `share` of itself.
  void move_weights(float share, std::uint64_t seed) {
    std::uint32_t id = 0;
    for (Parameter* p : trainer.model().parameters()) {
      const DrawKey draws{.seed = seed, .tensor_id = id++};
      auto values = download(backend, p->value);
      for (std::size_t i = 0; i < values.size(); ++i) values[i] *= 1 + share * (2 * draws.uniform(i) - 1);
      backend.upload(p->value, values.data());
    }
  }
};

inline double largest_distance(const std::vector<double>& a, const std::vector<double>& b) {
  double most = 0;
  for (std::size_t i = 0; i < a.size(); ++i) most = std::max(most, std::abs(a[i] - b[i]));
  return most;
}

/// What rounding alone does to a recipe's course. A device adds in another order than the CPU: results differ
/// by gamma(K) of themselves at most, K being the terms of the longest sum, as if operands had been moved by
/// that share. So all weights are moved by it at random, `draws` times, and the largest distances of the
/// CPU's course from `want` are kept: roundings to few bits that flip are in them. They are the largest of
/// few draws, so a device may be a few times further.
class Yardstick {
 public:
  Yardstick(const Recipe& recipe, const Course& want, int longest_sum, std::uint64_t draws) : want_(want) {
    for (std::uint64_t seed = 1; seed <= draws; ++seed) {
      RunOn run(the_cpu(), recipe);
      run.move_weights(float(longest_sum) * 0x1p-24f, seed);
      const Course moved = run.steps(std::int64_t(want.losses.size()));
      loss_ = std::max(loss_, largest_distance(moved.losses, want.losses));
      norm_ = std::max(norm_, largest_distance(moved.norms, want.norms));
    }
  }
  void expect_near(const Course& got) const {
    EXPECT_LE(largest_distance(got.losses, want_.losses), 4 * loss_);
    EXPECT_LE(largest_distance(got.norms, want_.norms), 4 * norm_);
  }

 private:
  const Course& want_;
  double loss_ = 0, norm_ = 0;
};

}  // namespace mxtape::test
