// Several GPUs with NCCL, both run on the host: processes that a test forks, whose side streams work as early
// or as late as events allow.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <set>

#include "core/files/atomic_file.h"
#include "dist/nccl_communicator.h"
#include "tests/support/lockstep/make_lockstep_backend.h"
#include "tests/support/lockstep/streams.h"
#include "tests/support/ranks/follow.h"
#include "tests/support/ranks/forked_ranks.h"
#include "tests/support/ranks/host_nccl.h"
#include "tests/support/tensors.h"
#include "tests/train/tiny_run.h"

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

constexpr double patient = 60, impatient = 1;  // seconds

/// Trains on `size` GPUs; the ranks' ends, and the checkpoint of rank 0 in `file`.
std::vector<RankEnd> train_on(int size, const Recipe& recipe, SideWork side, Forgetful::What forgets,
                              const std::filesystem::path& file) {
  const TokenFile data = tiny_data();
  return on_forks(size, [&](ForkedGroup& group, const std::vector<int>& sockets) {
    lockstep::host::set_side_work(side);
    const auto backend = make_lockstep_backend();
    NcclCommunicator nccl(host_nccl(sockets), group, patient);
    nccl.attach(std::make_unique<Forgetful>(make_lockstep_side_stream(*backend), forgets));
    Devices devices(group, nccl);
    if (group.place().rank > 0) return follow(devices, data, *backend), 0;
    {
      Trainer trainer(*backend, recipe, data, &devices);
      write_atomically(file, trained(trainer, file.string() + ".part"));
    }
    devices.announce("end");
    return host_nccl_count().bytes > 0 ? 0 : 1;
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
        for (const RankEnd& end : train_on(size, recipe, side, Forgetful::What::nothing, folder / "end.h5"))
          EXPECT_EQ(end.code, 0) << end.said;
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
      for (const RankEnd& end : train_on(2, recipe, side, Forgetful::What::nothing, folder / "end.h5"))
        EXPECT_EQ(end.code, 0) << end.said;
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
    train_on(2, recipe, side, forgets, folder / "end.h5");
    EXPECT_FALSE(bytes_of(folder / "end.h5") == want) << int(forgets);
  }
}

/// One exchange between two ranks: rank 0 sends `sent` numbers, rank 1 wants `wanted`.
std::vector<RankEnd> one_exchange(std::int64_t sent, std::int64_t wanted,
                                  const std::function<void(NcclCalls&, int rank)>& change = {}) {
  return on_forks(2, [&](ForkedGroup& group, const std::vector<int>& sockets) {
    const int rank = group.place().rank;
    lockstep::host::set_side_work(SideWork::early);
    const auto backend = make_lockstep_backend();
    NcclCalls calls = host_nccl(sockets);
    if (change) change(calls, rank);
    NcclCommunicator nccl(calls, group, impatient);
    nccl.attach(make_lockstep_side_stream(*backend));
    const Tensor x = backend->empty({rank == 0 ? sent : wanted});
    backend->fill(x, rank == 0 ? 3 : 0);
    const Part part{1 - rank, x};
    const std::span<const Part> one(&part, 1), none;
    nccl.start(0, rank == 0 ? one : none, rank == 0 ? none : one);
    nccl.finish(0);
    nccl.settle();
    const std::vector<float> values = download(*backend, x);
    return std::all_of(values.begin(), values.end(), [](float value) { return value == 3; }) ? 0 : 1;
  });
}

bool says(const RankEnd& end, const std::string& text) { return end.said.find(text) != std::string::npos; }

TEST(Nccl, AMessageArrives) {
  for (const RankEnd& end : one_exchange(1000, 1000)) EXPECT_EQ(end.code, 0) << end.said;
}

TEST(Nccl, AMessageOfAnotherLengthEndsTheRun) {
  const RankEnd end = one_exchange(8, 7)[1];
  EXPECT_EQ(end.code, int(ExitCode::peer));
  EXPECT_TRUE(says(end, "exchange 0 of 0 tensors to others and 1 from them")) << end.said;
  EXPECT_TRUE(says(end, "rank 0 sends 32 bytes, rank 1 wants 28")) << end.said;
}

TEST(Nccl, AGroupThatIsNotEndedEndsTheRun) {
  const RankEnd end = one_exchange(
      8, 8, [](NcclCalls& calls, int) { calls.group_end = [] { return int(nccl_success); }; })[0];
  EXPECT_EQ(end.code, int(ExitCode::peer));
  EXPECT_TRUE(says(end, "a group was started, and is not ended")) << end.said;
}

TEST(Nccl, AMessageOutsideOfAGroupEndsTheRun) {
  const RankEnd end = one_exchange(
      8, 8, [](NcclCalls& calls, int) { calls.group_start = [] { return int(nccl_success); }; })[0];
  EXPECT_EQ(end.code, int(ExitCode::peer));
  EXPECT_TRUE(says(end, "a message outside of a group")) << end.said;
}

TEST(Nccl, AnErrorThatComesLaterEndsTheRun) {
  const RankEnd end = one_exchange(8, 8, [](NcclCalls& calls, int rank) {
    if (rank == 1) calls.receive = [](void*, std::size_t, int, int, NcclComm*, void*) { return 6; };
  })[1];
  EXPECT_EQ(end.code, int(ExitCode::peer));
  EXPECT_TRUE(says(end, "ncclSend or ncclRecv: error")) << end.said;
}

TEST(Nccl, ARankThatIsLostEndsTheOthersAfterTheDeadline) {
  const auto begin = std::chrono::steady_clock::now();
  const auto ends = one_exchange(8, 8, [](NcclCalls& calls, int rank) {
    if (rank == 0) calls.group_start = []() -> int { ::_exit(9); };
  });
  EXPECT_EQ(ends[0].code, 9);
  EXPECT_EQ(ends[1].code, int(ExitCode::peer));
  EXPECT_TRUE(says(ends[1], "waited 1 s for exchange 0 of 0 tensors to others and 1 from them"))
      << ends[1].said;
  EXPECT_GE(std::chrono::steady_clock::now() - begin, std::chrono::duration<double>(impatient));
}

TEST(Nccl, AnInitThatFailsIsAnErrorThatSaysWhy) {
  const RankEnd end = one_exchange(8, 8, [](NcclCalls& calls, int rank) {
    if (rank == 1) calls.init = [](NcclComm**, int, NcclId, int, NcclConfig*) { return 2; };
  })[1];
  EXPECT_EQ(end.code, int(ExitCode::peer));
  EXPECT_TRUE(says(end, "ncclCommInitRankConfig: error")) << end.said;
}

}  // namespace
}  // namespace mxtape::test
