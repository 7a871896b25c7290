#include "dist/sockets/socket_communicator.h"

#include <gtest/gtest.h>

#include <cstring>

#include "tests/support/forked_ranks.h"

namespace mxtape::test {
namespace {

using Codes = std::vector<int>;

void demand(bool ok, const char* what) {
  if (ok) return;
  std::fprintf(stderr, "not so: %s\n", what);
  std::fflush(nullptr);
  ::_exit(99);
}

Tensor tensor_of(std::int64_t count) {
  return Tensor(std::shared_ptr<void>(std::malloc(std::size_t(count) * 4), std::free), {count}, DType::f32);
}

Tensor filled(std::int64_t count, int from, int to, int place) {
  const Tensor x = tensor_of(count);
  for (std::int64_t i = 0; i < count; ++i)
    static_cast<std::int32_t*>(x.raw())[i] = std::int32_t(i * 31 + from * 7 + to * 5 + place);
  return x;
}

bool same(const Tensor& a, const Tensor& b) {
  return std::memcmp(a.raw(), b.raw(), std::size_t(a.bytes())) == 0;
}

/// Every rank to every other: elements by place and ranks, none for some pairs.
std::int64_t count_of(int place, int from, int to) {
  constexpr std::int64_t large = std::int64_t{3} << 20;  // 12 MiB: more than a connection holds
  return place == 1 ? large + from : place == 2 && (from + to) % 2 ? 0 : 1 + 100 * from + to;
}

struct Exchanged {
  std::vector<Part> send, receive, want;
  Exchanged(const Place& place, int at) {
    for (int rank = 0; rank < place.size; ++rank) {
      if (rank == place.rank) continue;
      if (const auto count = count_of(at, place.rank, rank))
        send.push_back({rank, filled(count, place.rank, rank, at)});
      if (const auto count = count_of(at, rank, place.rank)) {
        receive.push_back({rank, tensor_of(count)});
        want.push_back({rank, filled(count, rank, place.rank, at)});
      }
    }
  }
  bool arrived() const {
    for (std::size_t i = 0; i < want.size(); ++i)
      if (!same(receive[i].data, want[i].data)) return false;
    return true;
  }
};

TEST(SocketCommunicator, TensorsArriveWhateverTheirSizeAndTheOrderOfFinishing) {
  for (const char* host : {"127.0.0.1", "::1"})
    for (const int size : {2, 4}) {
      ForkedRanks ranks;
      ranks.start_all(
          size,
          [](SocketGroup& group) {
            SocketCommunicator communicator(group);
            for (int turn = 0; turn < 3; ++turn) {
              std::vector<Exchanged> all;
              for (int place = 0; place < 4; ++place) all.emplace_back(group.place(), place);
              for (int place = 0; place < 4; ++place)
                communicator.start(place, all[std::size_t(place)].send, all[std::size_t(place)].receive);
              group.all_gather("in between");
              for (const int place : {2, 0, 3, 1}) {
                communicator.finish(place);
                demand(all[std::size_t(place)].arrived(), "what was sent has come");
              }
            }
          },
          20, test_rendezvous(host));
      EXPECT_EQ(ranks.wait(), Codes(std::size_t(size))) << ranks.output();
    }
}

TEST(SocketCommunicator, ProgressMovesTensorsBeforeAnyoneWaits) {
  ForkedRanks ranks;
  ranks.start_all(2, [](SocketGroup& group) {
    SocketCommunicator communicator(group);
    const Exchanged large(group.place(), 1);
    communicator.start(1, large.send, large.receive);
    const auto move = [&] { communicator.progress(), ::usleep(1000); };
    for (int i = 0; i < 10'000 && !large.arrived(); ++i) move();
    for (int i = 0; i < 1000; ++i) move();  // the other has not got all yet
    demand(large.arrived(), "it has come while nobody waited");
    group.all_gather("both have it");
    communicator.finish(1);
  });
  EXPECT_EQ(ranks.wait(), Codes(2)) << ranks.output();
}

// progress() is in the middle of a device's work: it is the end that says so.
TEST(SocketCommunicator, ARankThatIsLostWhileOthersComputeIsNamedInTheEnd) {
  ForkedRanks ranks;
  ranks.start_all(2, [](SocketGroup& group) {
    SocketCommunicator communicator(group);
    const Exchanged large(group.place(), 1);
    communicator.start(1, large.send, large.receive);
    if (group.place().rank == 1) ::raise(SIGKILL);
    for (int i = 0; i < 300; ++i) communicator.progress(), ::usleep(1000);
    communicator.finish(1);
    demand(false, "it ends in an error");
  });
  EXPECT_EQ(ranks.wait(), (Codes{7, 128 + SIGKILL})) << ranks.output();
  EXPECT_NE(ranks.output().find("rank 1 of 2"), std::string::npos) << ranks.output();
}

TEST(SocketCommunicator, PartsThatDoNotMatchAreNamed) {
  ForkedRanks ranks;
  ranks.start_all(2, [](SocketGroup& group) {
    SocketCommunicator communicator(group);
    const int other = 1 - group.place().rank;
    const std::vector<Part> send{{other, tensor_of(10)}}, receive{{other, tensor_of(11)}};
    communicator.start(0, send, receive);
    communicator.finish(0);
  });
  const Codes codes = ranks.wait();
  EXPECT_TRUE(codes == (Codes{1, 7}) || codes == (Codes{7, 1}) || codes == (Codes{1, 1})) << ranks.output();
  EXPECT_NE(ranks.output().find("sends 40 bytes in exchange 0, where 44 in exchange 0 are wanted"),
            std::string::npos)
      << ranks.output();
}

TEST(SocketCommunicator, ARankThatEndsInAnExchangeIsNamedOnce) {
  for (const int ending : {0, 1, 2}) {
    ForkedRanks ranks;
    ranks.start_all(3, [ending](SocketGroup& group) {
      SocketCommunicator communicator(group);
      const Exchanged first(group.place(), 0), large(group.place(), 1);
      communicator.start(0, first.send, first.receive);
      communicator.finish(0);
      communicator.start(1, large.send, large.receive);
      if (group.place().rank == ending) ::raise(SIGKILL);
      communicator.finish(1);
      group.all_gather("");
      demand(false, "it ends in an error");
    });
    Codes want(3, 7);
    want[std::size_t(ending)] = 128 + SIGKILL;
    EXPECT_EQ(ranks.wait(), want) << ranks.output();
    std::string all = ranks.output();
    EXPECT_NE(all.find(fmt::format("): rank {} of 3 (", ending)), std::string::npos) << all;
    const std::string mark = "mxtape: rank";
    EXPECT_EQ(all.find(mark), all.rfind(mark)) << all;
  }
}

}  // namespace
}  // namespace mxtape::test
