#include "recipes/knobs.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <set>

#include "tests/recipes/recipe_files.h"

namespace mxtape {
namespace {

std::string refused_text(const std::string& text) {
  return refusal([&] { recipe_from_toml(text, "r.toml"); });
}

/// A file that sets one key, on its second line.
std::string line_two(std::string_view section, std::string_view key, std::string_view value) {
  return fmt::format("{}\n{} = {}\n", section.empty() ? "" : fmt::format("[{}]", section), key, value);
}

/// Every word one edit away: a letter deleted, doubled, replaced or swapped with its neighbour.
std::set<std::string> misspellings(const std::string& word) {
  std::set<std::string> all;
  for (std::size_t i = 0; i < word.size(); ++i) {
    all.insert(word.substr(0, i) + word.substr(i + 1));
    if (i + 1 < word.size()) all.insert(word.substr(0, i) + word[i + 1] + word[i] + word.substr(i + 2));
    for (char c = 'a'; c <= 'z'; ++c) {
      all.insert(word.substr(0, i) + c + word.substr(i + 1));
      all.insert(word.substr(0, i) + c + word.substr(i));
    }
  }
  all.erase("");
  return all;
}

/// A TOML value of another type than the knob's.
std::string wrong_type(const Knob& knob) {
  const bool text =
      std::holds_alternative<std::string*>(knob.field) || std::holds_alternative<Choice>(knob.field);
  return text ? "3" : "\"three\"";
}

TEST(Knobs, EveryNameIsUniqueAndExplained) {
  Recipe r;
  std::set<std::string_view> names;
  for (const Knob& knob : knobs(r)) {
    EXPECT_TRUE(names.insert(knob.name).second) << knob.name;
    EXPECT_FALSE(knob.help.empty()) << knob.name;
  }
}

TEST(Knobs, EveryMisspellingOfOneEditIsRefusedAndNineteenInTwentyAreUnderstood) {
  Recipe r;
  const auto all = knobs(r);
  std::set<std::string> names{"extends",  "model",     "data",    "train",           "optim",
                              "schedule", "precision", "compute", "precision.rules", "precision.phases"};
  for (const Knob& knob : all) names.insert(std::string(knob.name));
  int refused = 0, understood = 0, count = 0;
  for (const Knob& knob : all) {
    const std::string prefix = knob.section().empty() ? "" : std::string(knob.section()) + ".";
    for (const auto& word : misspellings(std::string(knob.key()))) {
      if (names.count(prefix + word)) continue;
      ++count;
      const std::string text = refused_text(line_two(knob.section(), word, value_text(knob)));
      refused += text.starts_with("r.toml:2:1: unknown key") ? 1 : 0;
      understood += contains(text, fmt::format("'{}'", knob.name)) && contains(text, "did you mean") ? 1 : 0;
    }
  }
  EXPECT_GT(count, 5000);
  EXPECT_EQ(refused, count);
  EXPECT_GE(understood, count * 95 / 100);
}

TEST(Knobs, EveryKnobRefusesAnotherTypeWithLineAndKey) {
  Recipe r;
  for (const Knob& knob : knobs(r)) {
    const std::string text = refused_text(line_two(knob.section(), knob.key(), wrong_type(knob)));
    EXPECT_TRUE(text.starts_with(fmt::format("r.toml:2:1: {} = ", knob.name)) && contains(text, "want"))
        << text;
  }
}

TEST(Knobs, EveryNumberRefusesWhatLiesJustOutsideItsInterval) {
  Recipe r;
  for (const Knob& knob : knobs(r)) {
    const auto* interval = std::get_if<Interval>(&knob.accepts);
    if (!interval) continue;
    const bool real = std::holds_alternative<float*>(knob.field);
    const auto below =
        real ? (interval->low_is_out ? interval->low : interval->low - 1e-3) : interval->low - 1;
    const auto refuse = [&](double value) {
      const std::string number = real ? fmt::format("{:.9}", value) : fmt::format("{}", std::int64_t(value));
      const std::string text = refused_text(line_two(knob.section(), knob.key(), number));
      EXPECT_TRUE(text.starts_with(fmt::format("r.toml:2:1: {} = ", knob.name))) << number << ": " << text;
    };
    refuse(below);
    const bool bounded = interval->high < 0x1p62;
    if (bounded)
      refuse(real ? (interval->high_is_out ? interval->high : interval->high + 1e-3) : interval->high + 1);
  }
}

TEST(Knobs, EveryChoiceAcceptsItsNamesAndRefusesAMisspeltOne) {
  Recipe r;
  for (const Knob& knob : knobs(r)) {
    const auto* choice = std::get_if<Choice>(&knob.field);
    if (!choice) continue;
    for (const auto name : choice->names) {
      const char* also = name == "cudnn" ? "compute.device = \"cuda\"\ncompute.activations = \"bf16\"\n" : "";
      EXPECT_EQ(refused_text(fmt::format("{} = \"{}\"\n{}", knob.name, name, also)), "");
    }
    EXPECT_NE(refused_text(fmt::format("{} = \"{}x\"\n", knob.name, choice->names[0])), "");
  }
}

/// Random values for every knob, inside its interval, and random rules and phases.
class RandomRecipe {
 public:
  explicit RandomRecipe(unsigned seed) : random_(seed) {}

  Recipe make() {
    Recipe r;
    for (const Knob& knob : knobs(r)) std::visit([&](auto field) { set(field, knob); }, knob.field);
    r.name = "random";  // a folder's name cannot hold everything that a text can
    // Values that must fit together.
    r.model.width = r.model.heads * 2 * (1 + below(8));
    r.model.kv_heads = below(2) ? 1 : 0;
    r.model.head_width = 2 * below(16);
    r.model.qk_norm = r.model.qk_norm && r.model.positions == Positions::rope;
    r.model.rope.factor = 1.5f * float(1 + below(8));
    r.model.rope.low = 0.25f * float(1 + below(4)), r.model.rope.high = r.model.rope.low + 0.5f;
    r.model.rope.original = 1 + below(1 << 20);
    r.compute.attention = {};
    r.compute.saved = {};
    r.train.steps = 1000 + below(1000);
    r.train.accumulation = 1 + below(1000);
    r.train.strands = 1 + below(1000);
    r.schedule.warmup_steps = below(1000);
    r.schedule.start = r.optim.start = 0;
    r.model.layers = 1 + below(6);
    r.train.rollback_skip = r.train.rollback_skip || r.train.on_divergence == OnDivergence::rollback;
    for (auto n = below(3); n > 0; --n) r.precision.rules.push_back(rule());
    for (auto n = below(3); n > 0; --n)
      r.precision.phases.push_back({.start = 1 + below(900), .rules = {rule(), rule()}});
    if (!r.train.rollbacks.empty())
      r.precision.phases.push_back({.start_rollback = 1 + below(2), .rules = {rule()}});
    if (r.precision.rules.empty() && r.precision.phases.empty())
      r.precision.weights = "mxfp4 ema", r.precision.weight_average = 0.5f;
    else
      r.precision.weight_average = 0;  // an average that no format reads is refused
    r.precision.switch_error = 0;      // nor one that no telemetry measures
    return r;
  }

 private:
  std::int64_t below(std::int64_t n) {
    return std::uniform_int_distribution<std::int64_t>(0, n - 1)(random_);
  }
  template <std::size_t n>
  std::string one_of(const char* const (&texts)[n]) {
    return texts[below(n)];
  }
  static double high(const Knob& knob) { return std::min(std::get<Interval>(knob.accepts).high, 1e15); }
  static double low(const Knob& knob) { return std::get<Interval>(knob.accepts).low; }

  void set(std::int64_t* field, const Knob& k) {
    *field = std::int64_t(low(k)) + below(std::int64_t(high(k) - low(k)));
  }
  void set(std::uint64_t* field, const Knob&) {
    *field = std::uint64_t(below(std::int64_t(0x7fffffffffffffff)));
  }
  void set(float* field, const Knob& k) {
    // Any magnitude: the mantissa and the exponent are drawn apart.
    do {
      *field = std::ldexp(float(1 + below(1 << 24)), int(below(60)) - 70);
    } while (!std::get<Interval>(k.accepts).holds(double(*field)));
  }
  void set(bool* field, const Knob&) { *field = below(2) == 1; }
  void set(std::string* field, const Knob& k) {
    if (k.name == "model.kind")
      *field = model_kinds()[std::size_t(below(std::int64_t(model_kinds().size())))].name;
    else if (k.name == "telemetry.layers")
      *field = one_of({"*", "head", "blocks.0.*|blocks.-1.*"});
    else if (k.section() == "precision")
      *field = one_of({"f32", "bf16", "mxfp4 rule=even round=stochastic", "nvfp4 block=16x16", "mxint8"});
    else
      *field = one_of({"plain", "quote \" and \\ and # and ]", "ünïcode 漢字", "a=b"});
  }
  void set(const Choice& choice, const Knob&) {
    *choice.value = std::uint8_t(below(std::int64_t(choice.names.size())));
  }
  void set(const NamedInteger& field, const Knob& k) {
    if (const auto i = std::size_t(below(3)); i < field.names.size())
      *field.value = field.names[i].second;
    else
      set(field.value, k);
  }
  void set(std::vector<std::string>* field, const Knob& k) {
    if (k.name == "train.rollbacks" && below(2)) *field = {"512 -> 400", "600 -> 400 same batches"};
    if (k.name == "telemetry.formats" && below(2)) *field = {"mxfp8", "mxfp4 block=16"};
    if (k.name == "telemetry.slots" && below(2)) *field = {"fprop.*", "wgrad.dw"};
  }
  PrecisionRule rule() {
    PrecisionRule rule;
    rule.layers = one_of({"*", "blocks.*", "blocks.0.*|head", "blocks.-1.mlp.*"});
    if (below(2)) rule.slots = {"fprop.*", "*.w"};
    rule.format = one_of({"mxfp8_e4m3 rule=rceil", "bf16", "e3m0 block=16 scale=e8m0"});
    return rule;
  }
  std::mt19937_64 random_;
};

TEST(Knobs, RandomRecipesReadBackFromTheirResolvedTextUnchanged) {
  for (unsigned seed = 0; seed < 300; ++seed) {
    const Recipe r = RandomRecipe(seed).make();
    const std::string text = to_toml(r);
    const Recipe back = recipe_from_toml(text, "resolved");
    EXPECT_TRUE(differences(r, back).empty()) << "seed " << seed << ": " << differences(r, back)[0] << "\n"
                                              << text;
    EXPECT_EQ(r.seed, back.seed);
    for (const std::int64_t step : plan_changes(r))
      EXPECT_TRUE(precision_plan(r, step) == precision_plan(back, step)) << "seed " << seed << "\n" << text;
  }
}

TEST(Knobs, FloatsAreWrittenWithTheFewestDigitsThatReadBack) {
  Recipe r;
  const auto text_of = [&](float x) {
    r.optim.learning_rate = x;
    for (const Knob& knob : knobs(r))
      if (knob.name == "optim.learning_rate") return value_text(knob);
    return std::string();
  };
  EXPECT_EQ(text_of(1e-3f), "0.001");
  EXPECT_EQ(text_of(6e-4f), "0.0006");
  EXPECT_EQ(text_of(1e-8f), "1e-08");
  EXPECT_EQ(text_of(3.0f), "3.0");
  EXPECT_EQ(text_of(1.0f / 3), "0.33333334");
}

TEST(Knobs, EvalWindowsTakesNumbersAndItsTwoWords) {
  const auto windows = [](const std::string& value) {
    return recipe_from_toml("train.eval_windows = " + value + "\n", "r.toml").train.eval_windows;
  };
  EXPECT_EQ(windows("\"auto\""), auto_windows);
  EXPECT_EQ(windows("\"all\""), 0);
  EXPECT_EQ(windows("0"), 0) << "what recipes and checkpoints from before these words say";
  EXPECT_EQ(windows("7"), 7);
  EXPECT_EQ(Recipe().train.eval_windows, auto_windows);
  EXPECT_EQ(read_recipe("shakespeare", {"train.eval_windows=all"}).train.eval_windows, 0);
  for (const char* wrong : {"\"most\"", "-1", "1.5"})
    EXPECT_TRUE(contains(refused_text(fmt::format("train.eval_windows = {}\n", wrong)),
                         "want an integer >= 0 or \"auto\" or \"all\""))
        << wrong;
}

TEST(Knobs, FormatsThatMeanTheSameAreNoDifferenceHoweverTheyAreWritten) {
  Recipe a, b;
  a.precision.weights = "mxfp6";
  b.precision.weights = "mxfp6_e3m2";
  a.precision.gradients = "mxfp4 rule=even round=stochastic";
  b.precision.gradients = "e2m1 block=32 scale=e8m0 round=stochastic rule=even";
  a.precision.rules = {{"*", {}, "mxfp8", "a.toml:1"}, {"*", {"*.hadamard"}, "hadamard=16", "a.toml:2"}};
  b.precision.rules = {{"*", {}, "mxfp8_e4m3", ""}, {"*", {"*.hadamard"}, "hadamard=16 signs=run", ""}};
  a.precision.phases = {{.start = 3, .rules = {{"head", {}, "mxfp4 rule=ceil alpha=0.75", ""}}}};
  b.precision.phases = {{.start = 3, .rules = {{"head", {}, "mxfp4 alpha=0.75 rule=ceil", ""}}}};
  EXPECT_EQ(differences(a, b), std::vector<std::string>{});
  b.precision.weights = "mxfp6_e2m3";
  b.precision.phases[0].rules[0].format = "mxfp4 rule=ceil";
  EXPECT_EQ(differences(a, b).size(), 2u);
}

TEST(Knobs, DifferencesNameTheKeyAndTheRuleThatChanged) {
  const Recipe a = read_recipe("shakespeare-mxfp4");
  EXPECT_TRUE(differences(a, a).empty());
  Recipe b = a;
  b.optim.beta2 = 0.95f;
  b.precision.rules.push_back({"head", {}, "bf16", ""});
  const std::vector<std::string> want{
      "optim.beta2: 0.99 -> 0.95",
      "precision.rules 1: nothing -> rule: layers = \"head\" slots = [] format = \"bf16\""};
  EXPECT_EQ(differences(a, b), want);
}

}  // namespace
}  // namespace mxtape
