#include "dist/sockets/door.h"

#include <gtest/gtest.h>
#include <sys/time.h>

#include <atomic>
#include <csignal>
#include <set>
#include <thread>

#include "core/error.h"

namespace mxtape::test {
namespace {

constexpr std::uint64_t token = 7;
constexpr int many = 200;  // more than a door listens to at a time

class DoorTest : public testing::Test {
 protected:
  Socket come() const {
    Socket socket = connect_to(resolve("127.0.0.1").front().at(door_.port()), 5);
    EXPECT_TRUE(bool(socket));
    return socket;
  }
  Socket come_as(int rank) const {
    Socket socket = come();
    const Hello hello(token, rank, many, 1, "here");
    EXPECT_EQ(socket.write(&hello, sizeof hello), std::int64_t(sizeof hello));
    return socket;
  }
  /// The ranks that come in, until nobody does for half a second.
  std::set<int> come_in() {
    std::set<int> ranks;
    while (auto guest = door_.next(500)) ranks.insert(guest->hello.rank);
    return ranks;
  }

  Door door_{listen_at(resolve("127.0.0.1").front().at(0), 2 * many), token};
};

TEST_F(DoorTest, AllWhoHaveSpokenComeInHoweverManyAtATime) {
  std::vector<Socket> all;
  for (int rank = 0; rank < many; ++rank) all.push_back(come_as(rank));
  EXPECT_EQ(int(come_in().size()), many);
  EXPECT_EQ(door_.refused(), "");
}

TEST_F(DoorTest, ManyWhoAreSilentKeepNobodyOut) {
  std::vector<Socket> all;
  for (int i = 0; i < many; ++i) all.push_back(come());
  for (int rank = 0; rank < 10; ++rank) all.push_back(come_as(rank));
  EXPECT_EQ(int(come_in().size()), 10);
  EXPECT_NE(door_.refused(), "");
}

std::atomic<int> alarms = 0;

TEST(ConnectTo, ASignalDoesNotEndTheWait) {
  // Nobody accepts: once its queue is full, a connection waits for as long as it may.
  const Socket listener = listen_at(resolve("127.0.0.1").front().at(0), 0);
  const Address at = own_address(listener);
  std::vector<Socket> queue;
  for (int i = 0; i < 3; ++i) queue.push_back(connect_to(at, 0.05));
  struct sigaction noted {
  }, before{};
  noted.sa_handler = [](int) { ++alarms; };
  noted.sa_flags = SA_RESTART;
  sigaction(SIGALRM, &noted, &before);
  const itimerval soon{{0, 0}, {0, 50'000}}, never{};
  setitimer(ITIMER_REAL, &soon, nullptr);
  const auto start = std::chrono::steady_clock::now();
  EXPECT_FALSE(bool(connect_to(at, 0.4)));
  EXPECT_GE(std::chrono::steady_clock::now() - start, std::chrono::milliseconds(350));
  EXPECT_EQ(alarms, 1);
  setitimer(ITIMER_REAL, &never, nullptr);
  sigaction(SIGALRM, &before, nullptr);
}

}  // namespace
}  // namespace mxtape::test
