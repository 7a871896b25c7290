// A power cut after any call of a run: what was not synced is lost, or there in another order. Source of the
// method: SQLite's crash tests, https://www.sqlite.org/testing.html, section 3.3.
#include "tests/support/power_loss.h"

#include "program/plan/resume.h"
#include "tests/program/fault_fixture.h"

namespace mxtape::test {
namespace {

namespace fs = std::filesystem;

/// What a start finds after power cuts, counted.
struct Found {
  int states = 0;
  int lost = 0;     ///< an older checkpoint than one that was safe, or none
  int damaged = 0;  ///< a file under a checkpoint's name that is not whole, or other bytes
  int records = 0;  ///< a step up to the checkpoint's is not on record
  std::string first = "";
};

class PowerLoss : public FaultTest {
 protected:
  PowerLoss() : root_(fs::canonical(folder_.path())) {
    const Environment environment{
        {"LD_PRELOAD", MXTAPE_JOURNAL_SHIM},
        {"ASAN_OPTIONS", std::string(std::getenv("ASAN_OPTIONS") ? std::getenv("ASAN_OPTIONS") : "") +
                             ":verify_asan_link_order=0"},
        {"MXT_JOURNAL", (folder_ / "journal").string()}};
    EXPECT_EQ(run_plainly(words_), 0) << output_;
    calls_ = read_journal(folder_ / "journal");
    Disk disk(root_);
    std::int64_t renamed = 0, step = 0;
    for (const auto& call : calls_) {
      disk.run(call);
      if (const auto to = step_of_checkpoint(call.to); call.call == "rename" && to) {
        renamed = *to;
        files_[renamed] = disk.content(call.to);
      }
      if (call.call == "fsync" && call.path.ends_with("/checkpoints")) step = renamed;
      safe_.push_back(step);
    }
    fs::rename(run_, folder_ / "whole");
  }

  /// The step of the checkpoint that a start takes; -1 if there are checkpoints and none can be used.
  std::int64_t step_taken(const fs::path& run, Found& found, const std::string& what) {
    const RunFolder folder(run);
    Beginning start;
    try {
      start = choose_start(folder, "auto");
    } catch (const Error& e) {
      ++found.damaged;
      found.first += what + e.what();
      return -1;
    }
    if (!start.file) return 0;
    const std::int64_t step = *step_of_checkpoint(*start.file);
    const auto text = read_whole_text(*start.file);
    if (!start.rejected.empty() || text != files_[step]) {
      ++found.damaged;
      found.first += what + "damaged\n";
    }
    std::int64_t records = 0;
    std::ifstream lines(folder.metrics());
    for (std::string line; std::getline(lines, line);) {
      const auto record = nlohmann::json::parse(line, nullptr, false);
      if (!record.is_object()) break;
      records += record.contains("loss") && record["step"] == records + 1;
    }
    if (records < step) {
      ++found.records;
      found.first += what + fmt::format("{} steps on record, checkpoint of step {}\n", records, step);
    }
    return step;
  }

  /// Power cuts after each call, each with `choices` of what was left. `forgotten`: syncs that are left out,
  /// as if the program did not make them.
  Found cut_everywhere(int choices, const std::function<bool(const FileCall&)>& forgotten = {}) {
    Found found;
    Disk disk(root_);
    std::mt19937 random(7);
    for (std::size_t n = 0; n < calls_.size(); ++n) {
      if (forgotten && calls_[n].call == "fsync" && forgotten(calls_[n])) continue;
      disk.run(calls_[n]);
      for (int choice = 0; choice < choices; ++choice) {
        using enum Disk::Unsynced;
        const auto unsynced = choice == 0 ? gone : choice == 1 ? there : choice % 2 ? in_order : any;
        const fs::path left = folder_ / "left";
        fs::remove_all(left);
        disk.leave(left, unsynced, random);
        const std::string what =
            fmt::format("cut after call {} of {} ({} {}), choice {}: ", n + 1, calls_.size(), calls_[n].call,
                        fs::path(calls_[n].path).filename().string(), choice);
        const std::int64_t step = step_taken(left / "runs/tiny", found, what);
        ++found.states;
        if (step < 0 || step >= safe_[n]) continue;
        ++found.lost;
        found.first += what + fmt::format("step {}, but {} was safe\n", step, safe_[n]);
      }
    }
    fmt::print("{} calls, {} states: {} lost a checkpoint, {} had a damaged one, {} lacked records\n",
               calls_.size(), found.states, found.lost, found.damaged, found.records);
    return found;
  }

  static constexpr std::int64_t steps_ = 3;
  const std::vector<std::string> words_{
      "train", "tiny.toml", "--train.steps=3", "--model.layers=1", "--model.width=16", "--resume=auto"};
  const fs::path root_;
  std::vector<FileCall> calls_;
  std::vector<std::int64_t> safe_;             ///< after each call: the step whose checkpoint may not be lost
  std::map<std::int64_t, std::string> files_;  ///< the checkpoints, by step
};

TEST_F(PowerLoss, AfterAnyCallLeavesTheOldCheckpointOrTheNewOneAndItsRecords) {
  ASSERT_EQ(files_.size(), std::size_t(steps_));
  ASSERT_EQ(safe_.back(), steps_);
  const Found found = cut_everywhere(20);
  EXPECT_EQ(found.lost + found.damaged + found.records, 0) << found.first.substr(0, 3000);
}

// The model sees what it is for: the same run without some of its syncs.
TEST_F(PowerLoss, WouldBeSeenIfASyncWereMissing) {
  const auto is_folder = [](const FileCall& c) { return fs::path(c.path).extension().empty(); };
  EXPECT_GT(cut_everywhere(4, [&](const FileCall& c) { return c.path.find(".h5.tmp.") != std::string::npos; })
                .damaged,
            0)
      << "without the sync of a checkpoint's bytes";
  EXPECT_GT(cut_everywhere(4, [&](const FileCall& c) { return c.path.ends_with("/checkpoints"); }).lost, 0)
      << "without the sync of a checkpoint's name";
  EXPECT_GT(
      cut_everywhere(4, [&](const FileCall& c) { return is_folder(c) && !c.path.ends_with("/checkpoints"); })
          .lost,
      0)
      << "without the sync of the folders' names";
  EXPECT_GT(cut_everywhere(4, [&](const FileCall& c) { return c.path.ends_with("metrics.jsonl"); }).records,
            0)
      << "without the sync of the records";
}

TEST_F(PowerLoss, IsFollowedByARunToTheSameBits) {
  const auto whole = read_whole(folder_ / "whole/checkpoints/step_00000003.h5");
  Disk disk(root_);
  std::mt19937 random(3);
  int states = 0;
  for (std::size_t n = 0; n < calls_.size(); ++n) {
    disk.run(calls_[n]);
    if (random() % 8) continue;
    fs::remove_all(folder_ / "runs");
    disk.leave(folder_.path(), Disk::Unsynced::any, random);
    EXPECT_EQ(run_plainly(words_), 0) << output_;
    EXPECT_TRUE(read_whole(checkpoint(steps_)) == whole) << "cut after call " << n + 1;
    EXPECT_EQ(steps_in_metrics(), (std::vector<std::int64_t>{1, 2, 3})) << "cut after call " << n + 1;
    ++states;
  }
  fmt::print("{} states\n", states);
}

}  // namespace
}  // namespace mxtape::test
