// The fields of telemetry.jsonl against numbers that are computed here from the tensors of the step.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "tests/program/loop_run.h"
#include "tests/program/records/telemetry_records.h"

namespace mxtape::test {
namespace {

constexpr const char* layer = "blocks.0.mlp.up";

/// Keeps the tensors of one layer in one step: what its GEMMs round and what they give, the first of each.
class Spy final : public ForwardingBackend {
 public:
  using ForwardingBackend::ForwardingBackend;
  struct Kept {
    std::vector<float> x;
    std::int64_t rows = 0, cols = 0;
    double at(std::int64_t r, std::int64_t c) const { return double(x[std::size_t(r * cols + c)]); }
  };
  std::map<std::string, Kept> kept;
  bool on = false;

  void enter(std::string_view name, bool backward) override {
    here_ = name == layer;
    inner_.enter(name, backward);
  }
  void dispatch(AnyCall any) override {
    inner_.dispatch(any);
    if (!on || !here_) return;
    if (const auto* call = any.as<call::Quantize>())
      if (!call->to.empty()) keep(tensor_of(call->to.front().site.slot), call->x);
    if (const auto* call = any.as<call::Gemm>()) keep(gemm_of(call->a.site.slot), call->c);
  }

 private:
  void keep(std::string_view name, const Tensor& x) {
    if (kept.contains(std::string(name))) return;
    Kept& one = kept[std::string(name)];
    one = {std::vector<float>(std::size_t(x.count())), x.rows(), x.cols()};
    inner_.download(one.x.data(), x);
  }
  bool here_ = false;
};

/// MXFP4 of OCP's MX specification 1.0, by hand: blocks of 32 along rows of x, scale 2^(floor(log2 amax) -
/// 2), nearest of 0 .5 1 1.5 2 3 4 6 with ties to the even code.
struct ByHand {
  double errors = 0, squares = 0, rounded = 0, product = 0, clipped = 0, flushed = 0, largest = 0;
  double count = 0, blocks = 0;
  std::array<double, 3> spread{};
  std::map<int, int> scales;

  explicit ByHand(const Spy::Kept& x, bool columns = false) {
    const std::int64_t lines = columns ? x.cols : x.rows, along = columns ? x.rows : x.cols;
    for (std::int64_t line = 0; line < lines; ++line)
      for (std::int64_t first = 0; first < along; first += 32) {
        std::vector<double> block;
        for (std::int64_t i = first; i < std::min(first + 32, along); ++i)
          block.push_back(columns ? x.at(i, line) : x.at(line, i));
        add(block);
      }
  }
  void add(const std::vector<double>& block) {
    constexpr std::array<double, 8> grid{0, 0.5, 1, 1.5, 2, 3, 4, 6};
    double amax = 0, least = INFINITY;
    for (const double v : block) {
      amax = std::max(amax, std::fabs(v));
      if (v != 0) least = std::min(least, std::fabs(v));
    }
    const int exponent = std::ilogb(amax) - 2;
    ++scales[exponent];
    ++blocks;
    for (std::size_t k = 0; k < 3; ++k) spread[k] += amax > std::array{2, 10, 100}[k] * least;
    for (const double v : block) {
      const double u = std::fabs(v) / std::ldexp(1.0, exponent);
      std::size_t code = 0;
      for (std::size_t i = 1; i < grid.size(); ++i) {
        const double nearer = std::fabs(u - grid[i]) - std::fabs(u - grid[code]);
        if (nearer < 0 || (nearer == 0 && i % 2 == 0)) code = i;
      }
      const double y = std::copysign(std::ldexp(grid[code], exponent), v);
      count += 1;
      clipped += u > 6, flushed += v != 0 && y == 0;
      errors += (y - v) * (y - v), squares += v * v, rounded += y * y, product += v * y;
      largest = std::max(largest, std::fabs(v));
    }
  }
};

// Sums of some thousand terms in double, in another order: each differs by less than terms * 2^-53 of it.
constexpr double close = 1e-11;

void expect_like(const nlohmann::json& record, const ByHand& want) {
  const auto near = [&](const char* field, double value) {
    EXPECT_NEAR(record.at(field).get<double>(), value, close * std::max(1.0, std::fabs(value))) << record;
  };
  near("relative_rmse", std::sqrt(want.errors / want.squares));
  near("sqnr_db", 10 * std::log10(want.squares / want.errors));
  near("cosine", want.product / std::sqrt(want.squares * want.rounded));
  near("bias", want.product / want.squares - 1);
  near("clipped", want.clipped / want.count);
  near("flushed", want.flushed / want.count);
  near("crest_factor", want.largest / std::sqrt(want.squares / want.count));
  std::size_t k = 0;
  for (const char* limit : {"2", "10", "100"})
    EXPECT_NEAR(record["spread_over"][limit].get<double>(), want.spread[k++] / want.blocks, close) << limit;
  std::map<int, int> scales;
  for (const auto& [exponent, blocks] : record["scales"].items()) scales[std::stoi(exponent)] = blocks;
  EXPECT_EQ(scales, want.scales);
}

/// A run of four steps, of which the second and the fourth are measured; the spy sees the fourth.
struct SpiedRun {
  TemporaryFolder folder;
  TokenFile data = tiny_data();
  Recipe recipe;
  std::unique_ptr<Backend> device = make_backend("cpu");
  Spy spy{*device};
  Spy::Kept weight_before, weight_after;
  std::vector<nlohmann::json> records;

  explicit SpiedRun(Recipe r) : recipe(std::move(r)) {
    Measure measure(measuring_options(recipe));
    ObservingBackend backend(spy, {&measure});
    Trainer trainer(backend, recipe, data);
    EventFile events(folder / "events", 0);
    Telemetry telemetry(measure, backend, trainer, folder / "telemetry.jsonl", events);
    for (int step = 1; step <= 4; ++step) {
      spy.on = step == 4;
      weight_before = weight(trainer);
      telemetry.before_step();
      trainer.step();
      telemetry.after_step();
      weight_after = weight(trainer);
    }
    records = records_of(folder / "telemetry.jsonl");
  }
  Spy::Kept weight(Trainer& trainer) {
    for (const LinearWeight& w : trainer.model().linear_weights())
      if (w.layer == layer) {
        Spy::Kept kept{std::vector<float>(std::size_t(w.parameter.value.count())),
                       w.parameter.value.shape()[0], w.parameter.value.shape()[1]};
        device->download(kept.x.data(), w.parameter.value);
        return kept;
      }
    return {};
  }
};

Recipe mxfp4_recipe() {
  Recipe recipe = tiny_mxfp4_recipe(4);
  recipe.precision.weights = recipe.precision.activations = recipe.precision.gradients = "mxfp4";
  recipe.telemetry.every = 2;
  return recipe;
}

TEST(TelemetryFields, OfOperandsAreThoseOfTheFirstMicroBatchAndOfTheWeightsThatItMultiplied) {
  Recipe one_pass = mxfp4_recipe();  // whose copies of weights do not outlive it
  one_pass.train.accumulation = 1, one_pass.compute.saved = Saved::packed;
  for (const Recipe& recipe : {mxfp4_recipe(), one_pass}) {
    const SpiedRun run(recipe);
    const auto record = [&](const char* slot) {
      return record_of(run.records, 4, "operand", layer, slot, "mxfp4");
    };
    expect_like(record("fprop.x"), ByHand(run.spy.kept.at("x")));
    expect_like(record("wgrad.x"), ByHand(run.spy.kept.at("x"), true));
    expect_like(record("dgrad.dy"), ByHand(run.spy.kept.at("dy")));
    expect_like(record("wgrad.dy"), ByHand(run.spy.kept.at("dy"), true));
    expect_like(record("fprop.w"), ByHand(run.weight_before));
    expect_like(record("dgrad.w"), ByHand(run.weight_before, true));
    EXPECT_EQ(record("fprop.w")["in_use"], true);
  }
}

TEST(TelemetryFields, OfAWhatIfFormatAreThoseThatItWouldHave) {
  Recipe recipe = mxfp4_recipe();
  recipe.precision.weights = recipe.precision.activations = recipe.precision.gradients = "mxfp8";
  recipe.telemetry.formats = {"mxfp4"};
  const SpiedRun run(recipe);
  const auto record = record_of(run.records, 4, "operand", layer, "fprop.x", "mxfp4");
  expect_like(record, ByHand(run.spy.kept.at("x")));
  EXPECT_EQ(record["in_use"], false);
}

// The GEMM's gradient is a sum in f32 of products of rounded numbers; here the spy has it as it came out.
TEST(TelemetryFields, OfGradientsCompareTheGemmsWithTheExactProduct) {
  const SpiedRun run(mxfp4_recipe());
  const Spy::Kept &x = run.spy.kept.at("x"), &dy = run.spy.kept.at("dy");
  for (const std::string slot : {"wgrad.dw", "dgrad.dx"}) {
    const bool of_weight = slot == "wgrad.dw";
    const Spy::Kept& got = run.spy.kept.at(of_weight ? "wgrad" : "dgrad");
    double exact_squares = 0, squares = 0, product = 0, errors = 0;
    for (std::int64_t r = 0; r < 16; ++r)
      for (std::int64_t c = 0; c < 32; ++c) {
        double exact = 0;
        if (of_weight)
          for (std::int64_t m = 0; m < x.rows; ++m) exact += dy.at(m, r) * x.at(m, c);
        else
          for (std::int64_t n = 0; n < dy.cols; ++n) exact += dy.at(r, n) * run.weight_before.at(n, c);
        exact_squares += exact * exact, squares += got.at(r, c) * got.at(r, c);
        product += exact * got.at(r, c), errors += (exact - got.at(r, c)) * (exact - got.at(r, c));
      }
    const auto record = record_of(run.records, 4, "gradient", layer, slot);
    EXPECT_NEAR(record["cosine"].get<double>(), product / std::sqrt(exact_squares * squares), close) << slot;
    EXPECT_NEAR(record["bias"].get<double>(), product / exact_squares - 1, close) << slot;
    EXPECT_NEAR(record["relative_error"].get<double>(), std::sqrt(errors / exact_squares), close) << slot;
    EXPECT_LT(record["cosine"].get<double>(), 0.9999) << "else the test would test little";
  }
}

}  // namespace
}  // namespace mxtape::test
