#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "recipes/sweep/sweep_file.h"

namespace mxtape {

/// A sum of arms' losses, such as a difference of differences, "a - b - c + d"; the weights add up to 0.
struct Contrast {
  std::string text;
  std::vector<std::size_t> arms;
  std::vector<double> weights;
};
struct Family {
  std::string name;
  std::vector<std::size_t> arms;
};
/// What a file asks. Indices are of its arms.
struct Question {
  std::string name, file, base, baseline;
  double tolerance = 0;          ///< [nats per token]
  std::vector<double> steps_to;  ///< validation losses [nats per token]
  std::vector<std::uint64_t> select, confirm, tune;
  std::int64_t best = 0;           ///< of each family, are confirmed; 0: all
  std::vector<double> lengths;     ///< tokens per parameter, ascending; empty: no [points]
  double decay = 0.2;              ///< share of a length in which the learning rate falls
  double learning_rate_power = 0;  ///< it goes as parameters to this power, from the smallest size on
  std::string tuned_key;           ///< empty: nothing is tuned
  std::vector<double> tuned_values;
  std::vector<Family> families;
  std::vector<Contrast> contrasts;
};

struct ModelSize {
  std::string name;
  std::int64_t parameters = 0;  ///< N: of the blocks, so without embeddings and head
  std::int64_t tokens_per_step = 0;
};
/// A size and a length.
struct Point {
  std::string name;  ///< "w64 x 20"
  std::size_t size = 0;
  std::int64_t parameters = 0;  ///< N of its size
  double tokens_per_parameter = 0;
  std::int64_t tokens = 0, steps = 0, decay_steps = 0;  ///< D: of all steps
};

/// A sweep, also over sizes and lengths: [points], [[size]], [families], [tune]. Without [points] it has one
/// size and one point, without names. Reference of the keys: docs/sweeps.md, docs/referee.md.
class RefereeFile : public Question {
 public:
  /// Throws Error(usage) with file, line and column. `model_of`: of sweep_of().
  explicit RefereeFile(const std::string& path, const InitialModel& model_of = {});

  std::vector<std::string> arms;
  std::vector<ModelSize> sizes;  ///< N grows
  std::vector<Point> points;     ///< by size, then by length

  /// More than one point or one stage.
  bool has_stages() const { return points.size() > 1 || !confirm.empty() || !tune.empty(); }
  /// An ordinary sweep of all arms at a point, each length trained by itself. Throws Error(usage) as
  /// sweep_of().
  Sweep sweep(const Point&) const;
  /// Gives a recipe a value of [tune], by its index.
  void set_tuned(Recipe&, std::size_t value) const;

 private:
  struct Sections;
  void read_one_point(const InitialModel&), read_points(), read_sizes(), read_families(), read_tune();
  Contrast contrast_of(const std::string& text, const std::string& place) const;

  std::shared_ptr<Sections> sections_;
};

}  // namespace mxtape
