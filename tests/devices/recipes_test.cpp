// Every recipe that mxtape ships, on a device. Built for devices other than the CPU only.
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <regex>
#include <set>
#include <string>

#include "recipes/shipped.h"
#include "tests/devices/run_on.h"
#include "tests/support/device.h"

namespace mxtape::test {
namespace {

/// A shipped recipe with a model that is small, but has a block that is neither first nor last, and products
/// that every block, tile and rotation of a format divides.
Recipe in_small(const std::string& name) {
  Recipe r = read_recipe(name);
  r.model.layers = 3;
  r.model.heads = 2;
  r.model.kv_heads = std::min<std::int64_t>(r.model.kv_heads, 1);
  r.model.width = 64;
  r.model.mlp_width = std::min<std::int64_t>(r.model.mlp_width, 256);
  r.model.context = 32;
  r.model.vocabulary =
      std::min<std::int64_t>(r.model.vocabulary, 16);  // padding of the text's, or the text's own
  r.train.batch_size = 2;
  r.train.accumulation = std::min<std::int64_t>(r.train.accumulation, 2);
  r.train.steps = 2;
  r.schedule.warmup_steps = 0;
  return r;
}

/// What of the small recipe decides which kernels run.
std::string what_runs(const std::string& name) {
  const Recipe small = in_small(name);
  Recipe r;
  r.model = small.model;
  r.precision = small.precision;
  r.compute = small.compute;
  r.compute.device = "";  // the test's own
  r.train.accumulation = small.train.accumulation;
  return std::regex_replace(to_toml(r), std::regex(" *#[^\n]*"), "");  // without where values come from
}

class ShippedRecipeOnDevice : public testing::TestWithParam<std::string_view> {};

/// Recipes that differ in a model's size or a learning rate alone are one here.
std::vector<std::string_view> names() {
  std::vector<std::string_view> all;
  std::set<std::string> seen;
  for (const auto& shipped : shipped_recipes())
    if (seen.insert(what_runs(std::string(shipped.name))).second) all.push_back(shipped.name);
  return all;
}
INSTANTIATE_TEST_SUITE_P(Recipes, ShippedRecipeOnDevice, testing::ValuesIn(names()), [](const auto& info) {
  std::string name(info.param);
  for (char& c : name)
    if (!std::isalnum(static_cast<unsigned char>(c))) c = '_';
  return name;
});

TEST_P(ShippedRecipeOnDevice, FollowsTheCpu) {
  const Recipe recipe = in_small(std::string(GetParam()));
  const Course want = RunOn(the_cpu(), recipe).steps(2);
  const Yardstick yardstick(recipe, want, 4 * 64, 8);  // the longest sum is that of mlp.down
  yardstick.expect_near(RunOn(device(), recipe).steps(2));
}

}  // namespace
}  // namespace mxtape::test
