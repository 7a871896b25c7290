// Several GPUs with NCCL, both run on the host: processes that a test forks, whose side streams work as early
// or as late as events allow.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <set>

#include "core/files/atomic_file.h"
#include "dist/nccl_communicator.h"
#include "tests/support/forked_ranks.h"
#include "tests/support/host_nccl.h"
#include "tests/support/lockstep/make_lockstep_backend.h"
#include "tests/support/lockstep/streams.h"
#include "tests/support/tensors.h"
#include "tests/train/tiny_run.h"
#include "train/devices/follow.h"

namespace mxtape::test {
namespace {

using lockstep::host::SideWork;

Recipe strands_recipe(const char* sum = nullptr) {
  Recipe r = tiny_mxfp4_recipe(4);
  r.model = {.layers = 1, .heads = 2, .width = 16, .context = 8, .dropout = 0.1f};
  r.train.batch_size = 2;
  r.train.accumulation = 1;
  r.train.strands = 3;
  r.train.eval_windows = 4;
  r.train.verify_every = 2;
  r.compute.bucket_kib = 1;  // ten of them
  if (sum) r.precision.rules.push_back({"*", {"sum.dw"}, sum, "here"});
  return r;
}

/// The bytes of a checkpoint at the end, after what a run does between steps.
std::string trained(Trainer& trainer, const std::filesystem::path& file) {
  while (!trainer.finished()) {
    trainer.step();
    if (trainer.steps_done() == 3) trainer.validate();
  }
  trainer.save(file);
  std::string bytes = read_whole_text(file);
  std::filesystem::remove(file);
  return bytes;
}

/// One that leaves out an order between the two streams, or has it in the wrong place.
class Forgetful final : public SideStream {
 public:
  enum class What {
    nothing,
    follow,
    lead,
    follow_mark,
    mark,         ///< no mark at all
    first_marks,  ///< none after the first step
    early_marks,  ///< all where the first one belongs: before the other gradients are complete
    arrive        ///< none after the first of a place
  };
  Forgetful(std::unique_ptr<SideStream> inner, What what) : inner_(std::move(inner)), what_(what) {}
  void* handle() const override { return inner_->handle(); }
  void follow_backend() override {
    if (what_ != What::follow) inner_->follow_backend();
  }
  void mark(int place) override {
    if (what_ == What::mark) return;
    const bool first = marked_.insert(place).second;
    if (what_ == What::first_marks && !first) return;
    if (what_ != What::early_marks) return inner_->mark(place);
    constexpr int places = 100;
    for (int p = 1; p < places && place == 1; ++p) inner_->mark(p);
  }
  void follow_mark(int place) override {
    if (what_ != What::follow_mark) inner_->follow_mark(place);
  }
  void arrive(int place) override {
    if (what_ != What::arrive || arrived_.insert(place).second) inner_->arrive(place);
  }
  void lead_backend(int place) override {
    if (what_ != What::lead) inner_->lead_backend(place);
  }
  bool done() override { return inner_->done(); }

 private:
  std::unique_ptr<SideStream> inner_;
  What what_;
  std::set<int> marked_, arrived_;
};

/// Runs work(group, sockets of another plane) on ranks.
std::unique_ptr<ForkedRanks> on_ranks(
    int size, const std::function<void(PairGroup&, const std::vector<int>& sockets)>& work) {
  std::vector<std::vector<Socket>> sockets{std::size_t(size)};
  for (auto& row : sockets) row.resize(sockets.size());
  for (std::size_t a = 0; a < sockets.size(); ++a)
    for (std::size_t b = a + 1; b < sockets.size(); ++b)
      std::tie(sockets[a][b], sockets[b][a]) = socket_pair();
  return std::make_unique<ForkedRanks>(size, [&](PairGroup& group) {
    std::vector<int> mine;
    for (std::size_t rank = 0; rank < sockets.size(); ++rank)
      for (Socket& socket : sockets[rank])
        if (int(rank) == group.place().rank)
          mine.push_back(socket.number());
        else
          socket.close();
    work(group, mine);
  });
}

constexpr double patient = 60, impatient = 1;  // seconds

/// Trains on `size` GPUs; the checkpoint of rank 0 is in `file`.
std::unique_ptr<ForkedRanks> train_on(int size, const Recipe& recipe, SideWork side, Forgetful::What forgets,
                                      const std::filesystem::path& file) {
  const TokenFile data = tiny_data();
  return on_ranks(size, [&](PairGroup& group, const std::vector<int>& sockets) {
    lockstep::host::set_side_work(side);
    const auto backend = make_lockstep_backend();
    NcclCommunicator nccl(host_nccl(sockets), group, patient);
    nccl.attach(std::make_unique<Forgetful>(make_lockstep_side_stream(*backend), forgets));
    Devices devices(group, nccl);
    if (group.place().rank > 0) return follow(devices, data, backend.get());
    {
      Trainer trainer(*backend, recipe, data, &devices);
      write_atomically(file, trained(trainer, file.string() + ".part"));
    }
    devices.announce("end", "0");
    require(host_nccl_count().bytes > 0, "nothing went by NCCL");
  });
}

std::string bytes_of(const std::filesystem::path& file) {
  return std::filesystem::exists(file) ? read_whole_text(file) : "";
}

std::string on_one(const Recipe& recipe) {
  const TemporaryFolder folder;
  TinyRun run(recipe, make_lockstep_backend());
  return trained(run.trainer, folder / "one.h5");
}

TEST(Nccl, TwoAndThreeGpusGiveTheBitsOfOneHoweverEarlyOrLateMessagesTravel) {
  for (const auto& [sum, overlap] :
       {std::pair(static_cast<const char*>(nullptr), true), std::pair("mxfp8_e5m2 round=stochastic", true),
        std::pair(static_cast<const char*>(nullptr), false)}) {
    Recipe recipe = strands_recipe(sum);
    recipe.compute.overlap = overlap;
    const std::string want = on_one(recipe);
    for (int size = 2; size <= (overlap ? 3 : 2); ++size)
      for (const SideWork side : {SideWork::early, SideWork::late}) {
        const TemporaryFolder folder;
        const auto ranks = train_on(size, recipe, side, Forgetful::What::nothing, folder / "end.h5");
        EXPECT_EQ(ranks->wait(), 0) << ranks->output();
        EXPECT_TRUE(bytes_of(folder / "end.h5") == want)
            << size << (side == SideWork::early ? " early" : " late");
      }
  }
}

TEST(Nccl, PackedCopiesOfWeightsGiveTheSameBits) {
  for (const char* weights : {"mxfp4 round=stochastic", "bf16 round=stochastic"}) {
    Recipe recipe = strands_recipe();
    recipe.model.width = 32;
    recipe.precision.weights = weights;
    const std::string want = on_one(recipe);
    recipe.train.gather = Gather::copies;
    for (const SideWork side : {SideWork::early, SideWork::late}) {
      const TemporaryFolder folder;
      const auto ranks = train_on(2, recipe, side, Forgetful::What::nothing, folder / "end.h5");
      EXPECT_EQ(ranks->wait(), 0) << ranks->output();
      EXPECT_TRUE(bytes_of(folder / "end.h5") == want)
          << weights << (side == SideWork::early ? " early" : " late");
    }
  }
}

TEST(Nccl, AnOrderBetweenTheStreamsThatIsLeftOutIsSeen) {
  const Recipe recipe = strands_recipe();
  const std::string want = on_one(recipe);
  using What = Forgetful::What;
  for (const auto& [forgets, side] :
       {std::pair(What::follow, SideWork::early), std::pair(What::follow_mark, SideWork::early),
        std::pair(What::mark, SideWork::early), std::pair(What::first_marks, SideWork::early),
        std::pair(What::early_marks, SideWork::early), std::pair(What::lead, SideWork::late),
        std::pair(What::arrive, SideWork::late)}) {
    const TemporaryFolder folder;
    train_on(2, recipe, side, forgets, folder / "end.h5")->wait();
    EXPECT_FALSE(bytes_of(folder / "end.h5") == want) << int(forgets);
  }
}

/// One exchange between two ranks: the sender sends `sent` numbers, the other wants `wanted`.
std::unique_ptr<ForkedRanks> one_exchange(std::int64_t sent, std::int64_t wanted,
                                          const std::function<void(NcclCalls&, int rank)>& change = {},
                                          int sender = 0) {
  return on_ranks(2, [&](PairGroup& group, const std::vector<int>& sockets) {
    const int rank = group.place().rank;
    const bool sends = rank == sender;
    lockstep::host::set_side_work(SideWork::early);
    const auto backend = make_lockstep_backend();
    NcclCalls calls = host_nccl(sockets);
    if (change) change(calls, rank);
    NcclCommunicator nccl(calls, group, impatient);
    nccl.attach(make_lockstep_side_stream(*backend));
    const Tensor x = backend->empty({sends ? sent : wanted});
    backend->fill(x, sends ? 3 : 0);
    const Part part{1 - rank, x};
    const std::span<const Part> one(&part, 1), none;
    nccl.start(0, sends ? one : none, sends ? none : one);
    nccl.finish(0);
    nccl.settle();
    const std::vector<float> values = download(*backend, x);
    require(std::all_of(values.begin(), values.end(), [](float value) { return value == 3; }), "not so");
    group.all_gather("the end");
  });
}

/// The run ends with ExitCode::peer and one message, which has all these parts.
void expect_end(ForkedRanks& ranks, std::initializer_list<const char*> parts) {
  EXPECT_EQ(ranks.wait(), int(ExitCode::peer)) << ranks.output();
  EXPECT_EQ(ranks.times("mxtape: "), 1) << ranks.output();
  for (const char* part : parts) EXPECT_EQ(ranks.times(part), 1) << part << " in: " << ranks.output();
}

TEST(Nccl, AMessageArrives) {
  const auto ranks = one_exchange(1000, 1000);
  EXPECT_EQ(ranks->wait(), 0) << ranks->output();
}

TEST(Nccl, AMessageOfAnotherLengthEndsTheRun) {
  expect_end(*one_exchange(8, 7), {"mxtape: rank 1 of 2", "exchange 0 of 0 tensors to others and 1 from them",
                                   "rank 0 sends 32 bytes, rank 1 wants 28"});
}

TEST(Nccl, AGroupThatIsNotEndedEndsTheRun) {
  expect_end(*one_exchange(8, 8,
                           [](NcclCalls& calls, int rank) {
                             if (rank == 0) calls.group_end = [] { return int(nccl_success); };
                           }),
             {"a group was started, and is not ended"});
}

TEST(Nccl, AMessageOutsideOfAGroupEndsTheRun) {
  expect_end(*one_exchange(8, 8,
                           [](NcclCalls& calls, int rank) {
                             if (rank == 0) calls.group_start = [] { return int(nccl_success); };
                           }),
             {"a message outside of a group"});
}

TEST(Nccl, AnErrorThatComesLaterEndsTheRun) {
  expect_end(*one_exchange(8, 8,
                           [](NcclCalls& calls, int rank) {
                             if (rank == 1)
                               calls.receive = [](void*, std::size_t, int, int, NcclComm*, void*) {
                                 return 6;
                               };
                           }),
             {"mxtape: rank 1 of 2", "ncclSend or ncclRecv: error"});
}

TEST(Nccl, AnExchangeThatDoesNotEndEndsTheRunAfterTheDeadline) {
  const auto begin = std::chrono::steady_clock::now();
  constexpr int sender = 1;
  expect_end(*one_exchange(
                 8, 8,
                 [](NcclCalls& calls, int rank) {
                   if (rank == sender) calls.group_start = []() -> int { return int(::sleep(60)); };
                 },
                 sender),
             {"mxtape: waited 1 s for exchange 0 of 0 tensors to others and 1 from them"});
  const auto took = std::chrono::steady_clock::now() - begin;
  EXPECT_GE(took, std::chrono::duration<double>(impatient));
  EXPECT_LT(took, std::chrono::seconds(30));
}

TEST(Nccl, ARankThatIsLostIsNamed) {
  expect_end(*one_exchange(8, 8,
                           [](NcclCalls& calls, int rank) {
                             if (rank == 1) calls.group_start = []() -> int { ::_exit(9); };
                           }),
             {"mxtape: rank 1 of 2", "ended with exit code 9"});
}

TEST(Nccl, AnInitThatFailsIsAnErrorThatSaysWhy) {
  expect_end(*one_exchange(8, 8,
                           [](NcclCalls& calls, int rank) {
                             if (rank == 1)
                               calls.init = [](NcclComm**, int, NcclId, int, NcclConfig*) { return 2; };
                           }),
             {"mxtape: rank 1 of 2", "ncclCommInitRankConfig: error"});
}

}  // namespace
}  // namespace mxtape::test
