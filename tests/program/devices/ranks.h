#pragma once
#include <cstdlib>
#include <memory>

#include "tests/program/devices/shared_program.h"

namespace mxtape::test {

/// The processes of a run over sockets, each with the variables that torchrun would set: no launcher is
/// needed.
class RankProcesses {
 public:
  using Words = std::vector<std::string>;
  /// What a rank has for itself.
  struct Rank {
    Words words;
    Words variables{};               ///< "NAME=value"
    std::filesystem::path folder{};  ///< where it runs; empty: where all do
  };

  RankProcesses(const std::filesystem::path& folder, const std::vector<Rank>& ranks) {
    static int runs = 0;
    ++runs;
    // Of its own for each process of a test, and far from what systems give out.
    const int port = 10'000 + int((unsigned(::getpid()) * 64u + unsigned(runs)) % 600u) * 16;
    for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
      const auto place = folder / fmt::format("rank{}", rank);
      std::filesystem::create_directories(place);
      Words words{"-C",
                  (ranks[rank].folder.empty() ? folder : ranks[rank].folder).string(),
                  fmt::format("RANK={}", rank),
                  fmt::format("WORLD_SIZE={}", ranks.size()),
                  fmt::format("LOCAL_RANK={}", rank),
                  "MASTER_ADDR=127.0.0.1",
                  fmt::format("MASTER_PORT={}", port),
                  fmt::format("MXTAPE_RUN_ID={}.{}", ::getpid(), runs)};
      words.insert(words.end(), ranks[rank].variables.begin(), ranks[rank].variables.end());
      words.push_back(MXTAPE_PROGRAM);
      words.insert(words.end(), ranks[rank].words.begin(), ranks[rank].words.end());
      programs_.push_back(std::make_unique<Program>(place, words, std::vector<int>{}, "/usr/bin/env"));
    }
  }

  Program& operator[](std::size_t rank) { return *programs_[rank]; }
  bool running() const {
    for (const auto& program : programs_)
      if (!program->running()) return false;
    return true;
  }
  std::vector<int> wait() {
    std::vector<int> codes;
    for (const auto& program : programs_) codes.push_back(program->wait());
    return codes;
  }
  std::string output() const {
    std::string all;
    for (const auto& program : programs_) all += program->output();
    return all;
  }

 private:
  std::vector<std::unique_ptr<Program>> programs_;
};

/// Runs over sockets in the folder of a SharedProgram.
class Ranks : public SharedProgram {
 protected:
  using Rank = RankProcesses::Rank;

  RankProcesses start(const std::vector<Rank>& ranks) const { return {folder_.path(), ranks}; }
  RankProcesses start(int count, const Words& words) const {
    return start(std::vector<Rank>(std::size_t(count), Rank{words}));
  }
  /// The exit code of all; a failure of the test if they have not one.
  int end(const std::vector<Rank>& ranks) {
    RankProcesses processes = start(ranks);
    const std::vector<int> codes = processes.wait();
    output_ = processes.output();
    for (const int code : codes) EXPECT_EQ(code, codes.front()) << output_;
    return codes.front();
  }
  int on(int count, const Words& words) { return end(std::vector<Rank>(std::size_t(count), Rank{words})); }
};

}  // namespace mxtape::test
