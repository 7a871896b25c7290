// What check --devices says of a step, against what a step sends.
#include "train/devices/volume.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "tests/support/thread_ranks.h"
#include "tests/train/tiny_run.h"
#include "train/devices/packed_gradients.h"
#include "train/memory/device_plan.h"

namespace mxtape::test {
namespace {

/// Counts what goes to the others and what comes from them.
class CountingCommunicator final : public Communicator {
 public:
  explicit CountingCommunicator(Communicator& inner) : inner_(inner) {}
  std::string description() const override { return inner_.description(); }
  void start(int place, std::span<const Part> send, std::span<const Part> receive) override {
    for (const Part& part : send) {
      counted.sent += part.data.bytes();
      ++counted.messages;
      counted.largest = std::max(counted.largest, part.data.bytes());
    }
    for (const Part& part : receive) counted.received += part.data.bytes();
    inner_.start(place, send, receive);
  }
  void finish(int place) override { inner_.finish(place); }
  Traffic counted;

 private:
  Communicator& inner_;
};

struct Shared {
  int strands, size;
};

Recipe recipe_of(std::int64_t strands, std::int64_t width) {
  Recipe r = tiny_mxfp4_recipe(3);
  r.model.width = width;
  r.train.strands = strands;
  r.train.accumulation = 1;
  r.train.batch_size = 1;
  r.train.verify_every = 0;
  return r;
}

struct Planned {
  std::vector<std::vector<Shard>> shards;
  ExchangeVolume volume;
};

Planned planned_for(Model& model, const Recipe& recipe, int devices, int rank) {
  const std::vector<Parameter*> parameters = model.parameters();
  std::vector<Shape> shapes;
  for (const Parameter* p : parameters) shapes.push_back(p->value.shape());
  const std::vector<Bucket> buckets = make_buckets(shapes, recipe.compute.bucket_elements());
  Planned planned;
  for (const Bucket& bucket : buckets) planned.shards.push_back(cut(bucket, devices));
  const auto messages =
      gradient_messages(buckets, planned.shards, shapes, sum_formats(parameters, precision_plan(recipe, 0)));
  const CopiesThatTravel copies(parameters, recipe.train.gather == Gather::copies
                                                ? model.linear_weights()
                                                : std::vector<LinearWeight>());
  planned.volume = exchange_volume(planned.shards, messages, weight_messages(buckets, planned.shards, copies),
                                   recipe.train.strands, rank);
  return planned;
}

void expect_what_is_sent(std::int64_t width, std::int64_t bucket_kib, const std::string& sum_format,
                         const std::function<void(Recipe&)>& change = {}) {
  int compared = 0;
  for (const Shared& shared : {Shared{2, 2}, {4, 2}, {5, 3}, {8, 3}, {9, 4}, {17, 5}, {4, 4}}) {
    const int strands = shared.strands, size = shared.size;
    Recipe recipe = recipe_of(strands, width);
    recipe.compute.bucket_kib = bucket_kib;
    recipe.compute.overlap = strands % 2 == 0;
    if (!sum_format.empty()) recipe.precision.rules.push_back({"*", {"sum.dw"}, sum_format, "here"});
    if (change) change(recipe);
    const TokenFile data = tiny_data();
    std::vector<Traffic> counted(static_cast<std::size_t>(size)), planned(counted);
    std::vector<std::int64_t> own(counted.size()), elements(counted.size());
    ThreadRanks ranks(size);
    on_threads(ranks, [&](Devices& plain) {
      CountingCommunicator counting(plain.communicator());
      Devices devices(plain.group(), counting);
      const auto backend = make_backend("cpu");
      const auto next = [&] {
        if (devices.rank() > 0) devices.next();  // rank 0 announces what all do here
      };
      next();
      Trainer trainer(*backend, recipe, data, &devices);
      next();
      trainer.step();
      counting.counted = {};
      next();
      trainer.step();
      const auto rank = std::size_t(devices.rank());
      counted[rank] = counting.counted;
      const Planned plan = planned_for(trainer.model(), recipe, size, int(rank));
      planned[rank] = plan.volume.all();
      own[rank] = own_elements(plan.shards, int(rank));
      for (const Parameter* p : trainer.model().parameters()) elements[rank] += p->value.count();
    });
    std::int64_t sent = 0, received = 0, updated = 0;
    for (std::size_t rank = 0; rank < counted.size(); ++rank) {
      EXPECT_EQ(planned[rank].sent, counted[rank].sent) << strands << " on " << size << ", rank " << rank;
      EXPECT_EQ(planned[rank].received, counted[rank].received) << rank;
      EXPECT_EQ(planned[rank].messages, counted[rank].messages) << rank;
      EXPECT_EQ(planned[rank].largest, counted[rank].largest) << rank;
      EXPECT_GT(counted[rank].sent, 0);
      sent += planned[rank].sent, received += planned[rank].received, updated += own[rank];
      ++compared;
    }
    EXPECT_EQ(sent, received);
    EXPECT_EQ(updated, elements.front());
    Recipe known = recipe;
    known.model.vocabulary = data.tokenizer.size();
    const DevicePlan plan = device_plan(known, size);
    EXPECT_EQ(plan.sent_by_all, sent);
    std::int64_t busiest = 0;
    for (const Traffic& t : counted) busiest = std::max(busiest, t.bytes());
    EXPECT_EQ(plan.busiest.all().bytes(), busiest);
  }
  std::printf("%d devices compared\n", compared);
}

TEST(ExchangeVolume, IsWhatEachDeviceOfARunSendsAndReceives) {
  for (const std::int64_t width : {32, 96})
    for (const std::int64_t bucket_kib : {16, 16384}) expect_what_is_sent(width, bucket_kib, "");
}

TEST(ExchangeVolume, CountsCodesAndScalesWhereSumsAreInFewBits) {
  for (const char* const format : {"mxfp8_e4m3", "nvfp4", "bf16"}) expect_what_is_sent(96, 64, format);
}

TEST(ExchangeVolume, CountsCodesAndScalesOfWeightsThatTravelAsCopies) {
  for (const char* const weights : {"mxfp8_e4m3", "mxfp4 block=32x32", "bf16", "nvfp4 outer=none", "nvfp4"})
    expect_what_is_sent(96, 64, "", [&](Recipe& recipe) {
      recipe.train.gather = Gather::copies;
      recipe.precision.weights = weights;
    });
}

TEST(DevicePlan, SaysOfEveryParameterInWhatItTravels) {
  Recipe recipe = recipe_of(4, 64);
  recipe.train.gather = Gather::copies;
  recipe.model.vocabulary = tiny_data().tokenizer.size();
  recipe.precision.weights = "mxfp8_e4m3";
  recipe.precision.phases.push_back({.start = 2, .rules = {{"*.mlp.up", {"fprop.w"}, "nvfp4", "here"}}});
  const std::vector<GatherPlan> plans = gather_plans(recipe);
  ASSERT_EQ(plans.size(), 2u);
  EXPECT_EQ(plans[0].start, 0);
  EXPECT_EQ(plans[0].as_copies, 4 * recipe.model.layers);
  EXPECT_EQ(plans[0].as_values.at("the embedding reads it"), std::vector<std::string>{"tokens.weight"});
  EXPECT_EQ(plans[1].start, 2);
  EXPECT_EQ(plans[1].as_copies, 3 * recipe.model.layers);
  EXPECT_EQ(plans[1].as_values.at("a scale of the whole tensor").size(), std::size_t(recipe.model.layers));
  // Of a block 12 width^2 weights, each with codes and scales for both axes.
  const std::int64_t f32 = 4 * 12 * 64 * 64 * recipe.model.layers, packed = f32 / 2 + f32 / 64;
  EXPECT_EQ(plans[0].f32_bytes - plans[0].bytes, f32 - packed);
  EXPECT_EQ(device_plan(recipe, 4).gathers.size(), 2u);
  recipe.train.gather = Gather::values;
  EXPECT_TRUE(gather_plans(recipe).empty());
}

TEST(DevicePlan, MemoryIsWhatADeviceOfARunTakesAtItsPeak) {
  struct How {
    int strands, size;
    bool overlap = true;
    const char* sum = "f32";
    Gather gather = Gather::values;
  };
  for (const How& how : {How{4, 2}, How{8, 4}, How{12, 3}, How{6, 1}, How{8, 4, false},
                         How{4, 2, true, "mxfp8_e4m3"}, How{4, 2, false, "mxfp8_e4m3"},
                         How{4, 2, true, "f32", Gather::copies}, How{12, 3, true, "f32", Gather::copies}}) {
    const int strands = how.strands, size = how.size;
    Recipe recipe = recipe_of(strands, 128);
    recipe.train.gather = how.gather;
    recipe.model.layers = 3;
    recipe.compute.overlap = how.overlap;
    recipe.precision.rules.push_back({"*", {"sum.dw"}, how.sum, "here"});
    const TokenFile data = tiny_data();
    recipe.model.vocabulary = data.tokenizer.size();
    std::vector<std::int64_t> peaks(static_cast<std::size_t>(size));
    const auto train = [&](Devices* devices) {
      const auto backend = make_backend("cpu");
      const auto next = [&] {
        if (devices && devices->rank() > 0) devices->next();
      };
      next();
      Trainer trainer(*backend, recipe, data, devices);
      for (int step = 0; step < 2; ++step) {
        next();
        trainer.step();
      }
      next();
      trainer.validate();
      peaks[devices ? std::size_t(devices->rank()) : 0] = backend->peak_bytes();
    };
    if (size == 1) {
      train(nullptr);
    } else {
      ThreadRanks ranks(size);
      on_threads(ranks, [&](Devices& devices) { train(&devices); });
    }
    const auto most = double(*std::max_element(peaks.begin(), peaks.end()));
    const DevicePlan plan = device_plan(recipe, size);
    EXPECT_NEAR(double(plan.peak), most, 0.01 * most)
        << strands << " on " << size << (how.overlap ? ", overlap " : ", ") << how.sum;
    EXPECT_GT(plan.rest(), 0);
    EXPECT_EQ(plan.messages > 0, how.overlap && size > 1);
  }
}

}  // namespace
}  // namespace mxtape::test
