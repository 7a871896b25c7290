#pragma once
#include <condition_variable>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <thread>
#include <tuple>
#include <vector>

#include "dist/communicator.h"
#include "dist/devices.h"
#include "dist/together.h"

namespace mxtape::test {

/// What ranks that are threads of one process share. A rank that has failed ends the waits of all others.
class ThreadRanks {
 public:
  explicit ThreadRanks(int size) : size_(size), texts_(std::size_t(size)) {}
  /// Changes a message on its way: from, to, and the bytes.
  std::function<void(int, int, std::vector<char>&)> tamper{};
  /// When a message's bytes are read where they come from, between start() and finish(): at the first or the
  /// last moment.
  bool late = false;

  int size() const { return size_; }

  std::vector<std::string> all_gather(int rank, std::string_view mine) {
    std::unique_lock lock(mutex_);
    texts_[std::size_t(rank)] = mine;
    const std::int64_t turn = turn_;
    if (++arrived_ == size_) {
      arrived_ = 0;
      gathered_ = texts_;
      ++turn_;
      changed_.notify_all();
    }
    wait(lock, [&] { return turn_ != turn; });
    return gathered_;
  }
  void send(int from, int to, int place, const Tensor& x) {
    const char* const bytes = static_cast<const char*>(x.raw());
    std::vector<char> message(bytes, bytes + x.bytes());
    if (tamper) tamper(from, to, message);
    std::lock_guard lock(mutex_);
    messages_[{from, to, place}].push_back(std::move(message));
    changed_.notify_all();
  }
  void receive(int from, int to, int place, const Tensor& x) {
    std::unique_lock lock(mutex_);
    auto& queue = messages_[{from, to, place}];
    wait(lock, [&] { return !queue.empty(); });
    require(std::int64_t(queue.front().size()) == x.bytes(), "rank {} sends {} bytes, rank {} wants {}", from,
            queue.front().size(), to, x.bytes());
    std::memcpy(x.raw(), queue.front().data(), queue.front().size());
    queue.pop_front();
  }
  void fail() {
    std::lock_guard lock(mutex_);
    failed_ = true;
    changed_.notify_all();
  }
  /// Messages that were sent and that nobody has taken.
  std::size_t left_over() {
    std::size_t count = 0;
    for (const auto& [way, queue] : messages_) count += queue.size();
    return count;
  }

 private:
  template <class Done>
  void wait(std::unique_lock<std::mutex>& lock, const Done& done) {
    changed_.wait(lock, [&] { return done() || failed_; });
    if (!done()) throw Error(ExitCode::peer, "another rank has failed");
  }

  const int size_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::string> texts_, gathered_;
  int arrived_ = 0;
  std::int64_t turn_ = 0;
  std::map<std::tuple<int, int, int>, std::deque<std::vector<char>>> messages_;
  bool failed_ = false;
};

/// One of them: both planes, for tensors in host memory.
class ThreadRank final : public Group, public Communicator {
 public:
  ThreadRank(ThreadRanks& ranks, int rank) : ranks_(ranks) {
    place_.rank = rank, place_.size = ranks.size(), place_.host = "thread";
  }
  const Place& place() const override { return place_; }
  std::string description() const override { return "threads"; }
  std::vector<std::string> all_gather(std::string_view mine, Patience = Patience::step) override {
    return ranks_.all_gather(place_.rank, mine);
  }
  [[noreturn]] void abandon(ExitCode, std::string_view) noexcept override { std::terminate(); }
  void start(int place, std::span<const Part> send, std::span<const Part> receive) override {
    require(!under_way_.contains(place), "threads: place {} is under way already", place);
    Exchange& exchange = under_way_[place];
    exchange.send.assign(send.begin(), send.end());
    exchange.receive.assign(receive.begin(), receive.end());
    if (!ranks_.late) post(place, exchange);
    // Who reads what comes before it is there reads NaN.
    for (const Part& part : receive) std::memset(part.data.raw(), 0xff, std::size_t(part.data.bytes()));
  }
  void finish(int place) override {
    Exchange& exchange = under_way_.at(place);
    if (ranks_.late) post(place, exchange);
    for (const Part& part : exchange.receive) ranks_.receive(part.rank, place_.rank, place, part.data);
    under_way_.erase(place);
  }

 private:
  struct Exchange {
    std::vector<Part> send, receive;
  };
  void post(int place, const Exchange& exchange) {
    for (const Part& part : exchange.send) ranks_.send(place_.rank, part.rank, place, part.data);
  }

  ThreadRanks& ranks_;
  Place place_;
  std::map<int, Exchange> under_way_;  // by place
};

/// Runs work(devices) on each of `ranks`, and throws the error of the lowest that failed for its own reason.
inline void on_threads(ThreadRanks& ranks, const std::function<void(Devices&)>& work) {
  std::vector<std::exception_ptr> errors(std::size_t(ranks.size()));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks.size(); ++rank)
    threads.emplace_back([&, rank] {
      ThreadRank self(ranks, rank);
      Devices devices(self, self);
      try {
        work(devices);
      } catch (...) {
        errors[std::size_t(rank)] = std::current_exception();
        ranks.fail();
      }
    });
  for (auto& thread : threads) thread.join();
  std::exception_ptr first;
  for (const auto& error : errors) {
    if (!error) continue;
    if (!first) first = error;
    try {
      std::rethrow_exception(error);
    } catch (const Error& e) {
      if (e.code() != ExitCode::peer) std::rethrow_exception(error);
    }
  }
  if (first) std::rethrow_exception(first);
}

}  // namespace mxtape::test
