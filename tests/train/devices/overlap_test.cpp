// Gradients are exchanged while backward goes on (compute.overlap): when, in which order, and that no bit
// depends on it. Ranks are threads.
#include <gtest/gtest.h>

#include <algorithm>

#include "kernels/calls_rows.h"
#include "kernels/observers/forwarding_backend.h"
#include "tests/support/tensors.h"
#include "tests/support/thread_ranks.h"
#include "tests/train/tiny_run.h"
#include "train/devices/follow.h"

namespace mxtape::test {
namespace {

/// Eleven buckets or so; three strands leave devices without one in the last round.
Recipe overlap_recipe(std::int64_t steps) {
  Recipe r = tiny_mxfp4_recipe(steps);
  r.model = {.layers = 2, .heads = 2, .width = 32, .context = 8, .dropout = 0.1f};
  r.train.batch_size = 1;
  r.train.strands = 3;
  r.train.accumulation = 2;
  r.compute.bucket_kib = 8;
  return r;
}

/// What a rank does, in order.
struct Event {
  enum class What { backward_of_embedding, gemm, start, progress, finish } what;
  int place = 0;
  bool operator==(const Event&) const = default;
};
using Events = std::vector<Event>;

class WatchedCommunicator final : public Communicator {
 public:
  WatchedCommunicator(Communicator& inner, Events& events) : inner_(inner), events_(events) {}
  std::string description() const override { return inner_.description(); }
  void start(int place, std::span<const Part> send, std::span<const Part> receive) override {
    events_.push_back({Event::What::start, place});
    inner_.start(place, send, receive);
  }
  void progress() override {
    events_.push_back({Event::What::progress});
    inner_.progress();
  }
  void finish(int place) override {
    events_.push_back({Event::What::finish, place});
    inner_.finish(place);
  }

 private:
  Communicator& inner_;
  Events& events_;
};

/// Sees the calls, and lets one of them fail.
class WatchedBackend final : public ForwardingBackend {
 public:
  WatchedBackend(Backend& inner, Events& events) : ForwardingBackend(inner), events_(events) {}
  void dispatch(AnyCall any) override {
    visit([&](const auto* call) { note(*call); }, any);
    inner_.dispatch(any);
  }
  std::function<void()> before_gemm{};

 private:
  void note(const call::EmbeddingBackward&) { events_.push_back({Event::What::backward_of_embedding}); }
  void note(const call::Gemm&) {
    if (before_gemm) before_gemm();
    events_.push_back({Event::What::gemm});
  }
  void note(const auto&) {}

  Events& events_;
};

/// One step after another, on each of `size` ranks; their events of the last one.
std::vector<Events> events_of(int size, const Recipe& recipe) {
  const TokenFile data = tiny_data();
  std::vector<Events> events(static_cast<std::size_t>(size));
  ThreadRanks ranks(size);
  on_threads(ranks, [&](Devices& plain) {
    Events& mine = events[std::size_t(plain.rank())];
    WatchedCommunicator communicator(plain.communicator(), mine);
    Devices devices(plain.group(), communicator);
    const auto cpu = make_backend("cpu");
    WatchedBackend backend(*cpu, mine);
    const auto next = [&] {
      if (devices.rank() > 0) devices.next();
    };
    next();
    Trainer trainer(backend, recipe, data, &devices);
    for (int step = 0; step < 2; ++step) {
      next();
      mine.clear();
      trainer.step();
    }
  });
  EXPECT_EQ(ranks.left_over(), 0u);
  return events;
}

std::vector<int> places(const Events& events, Event::What what) {
  std::vector<int> all;
  for (const Event& event : events)
    if (event.what == what && event.place > 0) all.push_back(event.place);
  return all;
}

TEST(Overlap, TheFirstBucketsAreSentBeforeBackwardHasEndedAndAreMovedMeanwhile) {
  Recipe recipe = overlap_recipe(2);
  for (const bool overlap : {true, false}) {
    recipe.compute.overlap = overlap;
    for (const Events& events : events_of(2, recipe)) {
      const auto first = std::find_if(events.begin(), events.end(), [](const Event& event) {
        return event.what == Event::What::start && event.place == 1;
      });
      const auto strand_end = std::find(events.begin(), events.end(), Event{Event::What::finish, 1});
      const auto count = [&](Event::What what) {
        return std::count_if(first, strand_end, [&](const Event& event) { return event.what == what; });
      };
      ASSERT_NE(strand_end, events.end());
      EXPECT_EQ(count(Event::What::backward_of_embedding), overlap ? 1 : 0);
      EXPECT_EQ(count(Event::What::gemm) > 5, overlap);
      EXPECT_EQ(count(Event::What::progress) > 10, overlap);
      // The table's gradient is complete last, and with it that of the last bucket.
      const std::vector<int> started = places({first, strand_end}, Event::What::start);
      EXPECT_EQ(started.size() > 5, overlap);
      const auto table = std::find(first, strand_end, Event{Event::What::backward_of_embedding});
      EXPECT_EQ(places({first, table}, Event::What::start).size() + (overlap ? 1 : 0), started.size());
    }
  }
}

TEST(Overlap, AllRanksStartTheSamePlacesInTheSameOrderWithAStrandOrWithout) {
  for (const int size : {2, 3})
    for (const char* sum : {"f32", "mxfp8_e5m2 round=stochastic"}) {
      Recipe recipe = overlap_recipe(2);
      if (size == 3) recipe.train.strands = 4;  // two have none in the second round
      recipe.precision.rules.push_back({"blocks.0.*", {"sum.dw"}, sum, "here"});
      const std::vector<Events> all = events_of(size, recipe);
      const std::vector<int> want = places(all[0], Event::What::start);
      EXPECT_GT(want.size(), 10u);
      for (const Events& events : all) {
        EXPECT_EQ(places(events, Event::What::start), want);
        EXPECT_EQ(places(events, Event::What::finish), want);
      }
    }
}

/// All that a run says and leaves behind, but for the recipe's keys that no bit depends on.
struct Outcome {
  std::vector<double> losses, norms;
  std::vector<std::vector<float>> weights, moments;
  bool operator==(const Outcome&) const = default;
};

/// On so many devices; 0: without any.
Outcome outcome_on(int size, const Recipe& recipe, bool late = false) {
  const TokenFile data = tiny_data();
  const TemporaryFolder folder;
  Outcome outcome;
  const auto lead = [&](Trainer& trainer, Backend& backend) {
    while (!trainer.finished()) {
      const auto step = trainer.step();
      outcome.losses.push_back(step.loss);
      outcome.norms.push_back(double(step.norm));
    }
    trainer.save(folder / "end.h5");
    const auto parameters = trainer.model().parameters();
    for (const Parameter* p : parameters) outcome.weights.push_back(download(backend, p->value));
    CheckpointFile(folder / "end.h5")
        .read_optimizer(parameters, [&](std::size_t, Moment, const std::vector<float>& moment) {
          outcome.moments.push_back(moment);
        });
  };
  if (size == 0) {
    const auto backend = make_backend("cpu");
    Trainer trainer(*backend, recipe, data);
    lead(trainer, *backend);
    return outcome;
  }
  ThreadRanks ranks(size);
  ranks.late = late;
  on_threads(ranks, [&](Devices& devices) {
    const auto backend = make_backend("cpu");
    if (devices.rank() > 0) return follow(devices, data, backend.get());
    {
      Trainer trainer(*backend, recipe, data, &devices);
      lead(trainer, *backend);
    }
    devices.announce("end", "0");
  });
  EXPECT_EQ(ranks.left_over(), 0u);
  return outcome;
}

// A head of its own is complete first, and a phase changes what is rounded.
TEST(Overlap, NoBitDependsOnItNorOnBucketsNorOnWhenMessagesAreRead) {
  int compared = 0;
  for (const char* sum : {"f32", "mxfp8_e5m2 round=stochastic", "nvfp4 round=stochastic"})
    for (const bool tied : {true, false}) {
      Recipe recipe = overlap_recipe(4);
      recipe.model.tied_head = tied;
      recipe.precision.rules.push_back({"blocks.*", {"sum.dw"}, sum, "here"});
      recipe.precision.phases.push_back({.start = 2, .rules = {{"embedding", {"sum.dw"}, sum, "here"}}});
      const Outcome want = outcome_on(0, recipe);
      ASSERT_NE(want.losses.front(), want.losses.back());
      ASSERT_EQ(want.moments.size(), 2 * want.weights.size());
      for (const int size : {2, 3})
        for (const std::int64_t kib : {1, 8, 16384})
          for (const auto& [overlap, late] : {std::pair{true, false}, {true, true}, {false, true}}) {
            recipe.compute.overlap = overlap;
            recipe.compute.bucket_kib = kib;
            EXPECT_TRUE(outcome_on(size, recipe, late) == want)
                << sum << (tied ? " tied" : "") << ", " << size << " devices, " << kib << " KiB, overlap "
                << overlap << (late ? ", late" : ", early");
            ++compared;
          }
    }
  EXPECT_EQ(compared, 108);
}

// What the exchanges that are under way belong to is gone then, and nobody waits for ever.
TEST(Overlap, AnErrorInTheMiddleOfBackwardIsTheOneThatIsReported) {
  const TokenFile data = tiny_data();
  const Recipe recipe = overlap_recipe(4);
  for (const int failing : {0, 1, 2}) {
    ThreadRanks ranks(3);
    bool failed = false;
    const auto train = [&](Devices& plain) {
      Events events;
      WatchedCommunicator communicator(plain.communicator(), events);
      Devices devices(plain.group(), communicator);
      const auto cpu = make_backend("cpu");
      WatchedBackend backend(*cpu, events);
      backend.before_gemm = [&] {
        const auto started = places(events, Event::What::start);
        const auto finished = places(events, Event::What::finish);
        if (devices.rank() != failing || started.size() < finished.size() + 4) return;
        failed = true;
        fail(ExitCode::resource, "no memory in the middle of backward");
      };
      if (devices.rank() > 0) return follow(devices, data, &backend);
      Trainer trainer(backend, recipe, data, &devices);
      trainer.step();
    };
    try {
      on_threads(ranks, train);
      ADD_FAILURE() << "no error";
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), ExitCode::resource);
      EXPECT_NE(std::string(e.what()).find("in the middle of backward"), std::string::npos) << e.what();
    }
    EXPECT_TRUE(failed);
  }
}

}  // namespace
}  // namespace mxtape::test
