#include "recipes/rollbacks.h"

#include <gtest/gtest.h>

#include "core/error.h"
#include "recipes/recipe.h"

namespace mxtape {
namespace {

Recipe recipe_with(const std::vector<std::string>& rollbacks) {
  Recipe recipe;
  recipe.name = "goes-back";
  recipe.train.on_divergence = OnDivergence::rollback;
  recipe.train.rollbacks = rollbacks;
  recipe.precision.phases = {{.start_rollback = 1, .rules = {{"head", {}, "bf16", "here"}}},
                             {.start_rollback = 2, .rules = {{"head", {}, "mxint8", "here"}}}};
  return recipe;
}

std::string refusal_of_rollback(const Recipe& recipe) {
  try {
    validate(recipe);
    return "";
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ExitCode::usage);
    return e.what();
  }
}

TEST(Rollbacks, AreReadFromTheTextThatTheyWrite) {
  for (const Rollback& one : {Rollback{512, 400, false}, {1, 0, true}, {400, 400, true}}) {
    const auto read = rollbacks(recipe_with({one.text()}));
    ASSERT_EQ(read.size(), 1u);
    EXPECT_EQ(read[0].from, one.from);
    EXPECT_EQ(read[0].to, one.to);
    EXPECT_EQ(read[0].same_batches, one.same_batches);
  }
  for (const char* text : {"", "512", "400 -> 512", "400 -> 400", "512 -> ", "512 -> -1", "512 -> 400 ",
                           "a -> b", "512 -> 400 other batches", "99999999999999999999 -> 1"})
    EXPECT_NE(refusal_of_rollback(recipe_with({text})).find("is no rollback"), std::string::npos) << text;
}

TEST(Rollbacks, BeginTheirPhasesWhereTheyLead) {
  const auto head = [](const Recipe& r, std::int64_t step) {
    return precision_plan(r, step).linear.at("head").fprop_x;
  };
  const Recipe none = recipe_with({}), one = recipe_with({"700 -> 600"}),
               two = recipe_with({"700 -> 600", "650 -> 600"});
  EXPECT_EQ(plan_changes(none), std::vector<std::int64_t>{0});
  EXPECT_EQ(plan_changes(one), (std::vector<std::int64_t>{0, 600}));
  EXPECT_TRUE(head(none, 1999).is_identity());
  EXPECT_TRUE(head(one, 599).is_identity());
  EXPECT_EQ(head(one, 600), bf16_cast);
  EXPECT_EQ(head(two, 600), parse_quantizer("mxint8"));
  EXPECT_EQ(coming_rollbacks(none), (std::vector<std::int64_t>{1, 2}));
  EXPECT_EQ(coming_rollbacks(one), std::vector<std::int64_t>{2});
  EXPECT_EQ(head(as_rolled_back(none, 1), 0), bf16_cast);
  EXPECT_EQ(head(as_rolled_back(one, 1), 0), bf16_cast) << "the one that came holds before the next, too";
  const auto phases = possible_phases(one);
  ASSERT_EQ(phases.size(), 4u) << "steps 0 and 600, as planned and after the second rollback";
  EXPECT_EQ(head(phases[3].course, phases[3].step), parse_quantizer("mxint8"));
  EXPECT_TRUE(head(as_rolled_back(none, 1, 500), 499).is_identity());
  EXPECT_EQ(head(as_rolled_back(none, 1, 500), 500), bf16_cast);
}

TEST(Rollbacks, PassOverBatchesFromTheStepOnToWhichTheyLead) {
  const Recipe r = recipe_with({"700 -> 600", "650 -> 600", "900 -> 800 same batches"});
  EXPECT_EQ(steps_passed_over(r, 599), 0);
  EXPECT_EQ(steps_passed_over(r, 600), 150);
  EXPECT_EQ(steps_passed_over(r, 1999), 150);
}

TEST(Rollbacks, ArePartOfTheResolvedTextAndOfDifferences) {
  const Recipe before = recipe_with({}), after = recipe_with({"700 -> 600"});
  EXPECT_EQ(recipe_from_toml(to_toml(after), "resolved").train.rollbacks, after.train.rollbacks);
  EXPECT_EQ(recipe_from_toml(to_toml(after), "resolved").precision.phases[1].start_rollback, 2);
  EXPECT_EQ(differences(before, after), std::vector<std::string>{"train.rollbacks: [] -> [\"700 -> 600\"]"});
}

TEST(Rollbacks, ThatCannotComeOrWouldChangeNothingAreRefused) {
  EXPECT_EQ(refusal_of_rollback(recipe_with({})), "");
  Recipe r = recipe_with({});
  r.train.rollback_most = 1;
  EXPECT_NE(refusal_of_rollback(r).find(
                "a precision phase starts at rollback 2, which never comes: train.rollback_most = 1"),
            std::string::npos);
  r = recipe_with({});
  r.train.on_divergence = OnDivergence::skip;
  EXPECT_NE(refusal_of_rollback(r).find("train.on_divergence is not rollback"), std::string::npos);
  r.train.rollbacks = {"5 -> 4", "6 -> 4"};
  EXPECT_EQ(refusal_of_rollback(r), "") << "those have come";
  r = recipe_with({});
  r.train.rollback_skip = false;
  EXPECT_EQ(refusal_of_rollback(r), "");
  r.train.rollback_most = 3;
  EXPECT_NE(refusal_of_rollback(r).find("rollback 3 of train.rollback_most = 3 would change nothing"),
            std::string::npos);
  r = recipe_with({});
  r.precision.phases[1].rules[0].layers = "no such layer";
  EXPECT_NE(refusal_of_rollback(r).find("no layer matches"), std::string::npos);
}

}  // namespace
}  // namespace mxtape
