// `mxtape check` and `mxtape train`, given the same words, end with the same code and the same first message.
// Most rows have two problems, so that their order is held, too.
#include <algorithm>
#include <functional>

#include "tests/program/fault_fixture.h"

namespace mxtape::test {
namespace {

namespace fs = std::filesystem;
using Words = std::vector<std::string>;

struct Row {
  std::string what;
  Words words;
  int code;
  std::string free = "";                 ///< bytes on every file system; "": what there is
  std::function<void()> before = [] {};  ///< in the folder
};

class CheckAndTrain : public FaultTest {
 protected:
  CheckAndTrain() {
    write_atomically(folder_ / "new.toml", std::string("[train]\nsteps = 4\n"));
    TokenFile other = tiny_data();
    other.train = other.validation;
    TokenFile(other).write(folder_ / "other.h5");  // another text
    other.tokenizer = Tokenizer::from_text(Tokenizer::Kind::characters, "абвгдеёжзийклмнопрстуф");
    other.train = other.validation = Split::from_tokens(std::vector<std::int32_t>(2000, 1), 18);
    TokenFile(other).write(folder_ / "foreign.h5");  // another tokenizer
    other = tiny_data();
    other.validation = Split::from_tokens(std::vector<std::int32_t>(10, 1), 18);
    TokenFile(other).write(folder_ / "short.h5");
  }

  /// The first message, up to the next one.
  std::string first_message() const {
    const auto at = output_.find("mxtape: ");
    if (at == std::string::npos || (at > 0 && output_[at - 1] != '\n')) return "";
    return output_.substr(at, std::min(output_.find("\nmxtape: ", at), output_.size() - 1) - at);
  }
  /// What is worth reading of it when a row fails.
  std::string end_of_output() const {
    return output_.size() > 400 ? "..." + output_.substr(output_.size() - 400) : output_;
  }
  std::vector<std::string> everything() const {
    std::vector<std::string> all;
    for (const auto& entry : fs::recursive_directory_iterator(folder_.path()))
      if (entry.path().filename() != "output.txt")
        all.push_back(entry.path().string() +
                      (entry.is_regular_file() ? std::to_string(entry.file_size()) : std::string()));
    std::sort(all.begin(), all.end());
    return all;
  }
  int run_with(const std::string& free, const char* command, const Words& words) {
    const Environment disk{{free.empty() ? "MXT_NO_FREE_BYTES" : "MXT_FREE_BYTES", free}};
    Words all{command};
    all.insert(all.end(), words.begin(), words.end());
    return run(all);
  }

  void expect_the_same(const Row& row) {
    fs::remove_all(folder_ / "runs");
    if (fs::exists(folder_ / "prepared"))
      fs::copy(folder_ / "prepared", folder_ / "runs", fs::copy_options::recursive);
    row.before();
    const auto before = everything();
    const int checked = run_with(row.free, "check", row.words);
    const std::string said = first_message(), end = end_of_output();
    EXPECT_EQ(checked, row.code) << row.what << "\n" << end;
    EXPECT_EQ(everything(), before) << row.what << ": check changes nothing";
    EXPECT_EQ(run_with(row.free, "train", row.words), checked) << row.what << "\n" << end_of_output() << end;
    EXPECT_EQ(first_message(), said) << row.what << "\n" << end;
    EXPECT_EQ(said.empty(), row.code == 0) << row.what;
  }
  void expect_the_same(const std::vector<Row>& rows) {
    for (const Row& row : rows) expect_the_same(row);
    fmt::print("{} rows\n", rows.size());
  }

  /// What the rows begin with: runs/tiny, finished, and runs/parent.
  void prepare() {
    for (const char* name : {"--name=tiny", "--name=parent"})
      ASSERT_EQ(run_plainly({"train", "tiny.toml", name, "--train.keep=9"}), 0) << output_;
    fs::rename(folder_ / "runs", folder_ / "prepared");
  }
  void only_step_1() { fs::remove(checkpoint(2)); }
  void damage(std::int64_t step) { fs::resize_file(checkpoint(step), 1000); }

  static inline const std::string no_device = "--device=abacus", no_data = "--data.file=gone.h5",
                                  foreign = "--data.file=foreign.h5", too_short = "--data.file=short.h5",
                                  no_folder = "--train.out=data.h5", small = "--model.vocabulary=3",
                                  unreached = "--optim.start=1", little = "1000";
  static inline const Words too_large{"tiny.toml", "--train.batch_size=1048576", "--model.width=1024"};
  static Words tiny(Words more) {
    more.insert(more.begin(), "tiny.toml");
    return more;
  }
  static Words large(Words more) {
    more.insert(more.begin(), too_large.begin(), too_large.end());
    return more;
  }
};

TEST_F(CheckAndTrain, OfANewRun) {
  const std::string far = "--train.out=" + std::string(300, 'x');
  std::optional<RunFolder> busy;
  expect_the_same({
      {"nothing is wrong", tiny({}), 0},
      {"two keys that are none", tiny({"--optim.betta1=1", "--seeed=2"}), 2},
      {"a key, and data", tiny({"--optim.betta1=1", no_data}), 2},
      {"data that is not set, and a folder", tiny({"--data.file=", no_folder}), 2},
      {"data, and a folder", tiny({no_data, no_folder}), 3},
      {"data, and a device", tiny({no_data, no_device}), 3},
      {"a short split, and a folder", tiny({too_short, no_folder}), 3},
      {"a short split, and room", tiny({too_short}), 3, little},
      {"a folder, and a vocabulary", tiny({no_folder, small}), 6},
      {"a folder, and a device", tiny({no_folder, no_device}), 6},
      {"a folder, and memory", large({no_folder}), 6},
      {"a folder, and room", tiny({no_folder}), 6, little},
      {"a folder whose name is too long, and a device", tiny({far, no_device}), 6},
      {"a link that leads nowhere, and a device", tiny({no_device}), 6, "",
       [&] { fs::create_symlink("nowhere", folder_ / "runs"); }},
      {"a file in the run's place, and memory", too_large, 6, "",
       [&] {
         fs::create_directories(folder_ / "runs");
         fs::copy_file(folder_ / "new.toml", folder_ / "runs/tiny");
       }},
      {"a file in the checkpoints' place, and a start", tiny({unreached}), 6, "",
       [&] {
         fs::create_directories(folder_ / "runs/tiny");
         fs::copy_file(folder_ / "new.toml", folder_ / "runs/tiny/checkpoints");
       }},
      {"a start, and a vocabulary", tiny({unreached, small}), 2},
      {"a start, and a device", tiny({unreached, no_device}), 2},
      {"a vocabulary, and a device", tiny({small, no_device}), 3},
      {"a vocabulary, and room", tiny({small}), 3, little},
      {"a device, and memory", large({no_device}), 2},
      {"a device, and room", tiny({no_device}), 2, little},
      {"memory, and room", too_large, 6, little},
      {"a recipe that is none", {"nowhere.toml", no_data}, 2},
      {"no recipe", {no_data}, 2},
      {"nothing to go on from, and a device", tiny({"--resume=auto", no_device}), 2},
      {"what may differ from nothing, and data", tiny({"--allow-change=optim", no_data}), 2},
      {"what may differ from nothing anew, and data", tiny({"--resume=no", "--allow-change=optim", no_data}),
       2},
      {"what can never differ, and data", tiny({"--resume=auto", "--allow-change=optim.lr", no_data}), 2},
      {"a checkpoint that is not there, and a device", tiny({"--resume=gone.h5", no_device}), 3},
      {"weights that are not there, and data", tiny({"--train.init=gone", no_data}), 3},
      {"a process that trains there, and a device", tiny({no_device}), 6, "",
       [&] { busy.emplace(folder_ / "runs/tiny"); }},
  });
}

TEST_F(CheckAndTrain, OverSizesOfTheDisk) {
  const auto needed = [&](const Words& words) {
    fs::remove_all(folder_ / "runs");
    Words all{"check", "tiny.toml", "--json"};
    all.insert(all.end(), words.begin(), words.end());
    EXPECT_EQ(run_plainly(all), 0) << output_;
    return nlohmann::json::parse(output_)["numbers"];
  };
  std::vector<Row> rows;
  for (const Words& words : {Words{"--train.save_every=0"}, Words{"--train.steps=60", "--train.save_every=0"},
                             Words{"--train.keep=5", "--train.steps=8", "--train.keep_every=2"},
                             Words{"--telemetry.every=1", "--train.save_every=0"}}) {
    const auto numbers = needed(words);
    const auto all = std::int64_t(numbers["disk_needed_bytes"]),
               start = std::int64_t(numbers["disk_to_start_bytes"]);
    EXPECT_LE(start, all);
    EXPECT_GT(start, std::int64_t(numbers["checkpoint_bytes"]));
    for (const std::int64_t free : {std::int64_t{0}, start - 1, start, all - 1, 2 * all})
      rows.push_back({fmt::format("{} with {} of {} and {}", words[0], free, start, all), tiny(words),
                      free < start ? 6 : 0, std::to_string(free)});
  }
  expect_the_same(rows);
  // Enough to begin with, not for all that is kept.
  const Words keeps{"--train.keep=5", "--train.steps=8"};
  const auto start = std::to_string(std::int64_t(needed(keeps)["disk_to_start_bytes"]));
  for (const char* command : {"check", "train"}) {
    fs::remove_all(folder_ / "runs");
    EXPECT_EQ(run_with(start, command, tiny(keeps)), 0) << output_;
    EXPECT_TRUE(contains(output_, "runs/tiny: all checkpoints that are kept, and the records, will need "))
        << output_;
  }
  // What a killed run has left is given back when the next one begins.
  fs::remove_all(folder_ / "runs");
  write_atomically(folder_ / "runs/tiny/reserved", std::string(200'000, 'x'));
  const std::string less = std::to_string(std::stoll(start) - 100'000);
  EXPECT_EQ(run_with(less, "check", tiny(keeps)), 0) << output_;
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // their shadows need the address space
TEST_F(CheckAndTrain, OverSizesOfTheMemory) {
  int refused = 0, taken = 0;
  for (const int mib : {100, 300, 3200}) {
    Words said;
    for (const std::string command : {"check", "train"}) {
      const std::string words =
          " tiny.toml --train.batch_size=2048 --train.steps=1 --schedule.warmup_steps=0";
      Program program(folder_.path(),
                      {"-c", fmt::format("ulimit -v {}; exec '{}' {}{} --resume=no", mib << 10,
                                         MXTAPE_PROGRAM, command, words)},
                      {}, "/bin/sh");
      const int code = program.wait();
      output_ = program.output();
      // What the device has is what is left to the process at that moment.
      said.push_back(
          fmt::format("{} {}", code, first_message().substr(0, first_message().find("the device has"))));
      ++(code == 0 ? taken : refused);
      EXPECT_TRUE(code == 0 || contains(said.back(), "6 mxtape: memory: the run needs about "))
          << said.back();
    }
    EXPECT_EQ(said[0], said[1]) << mib << " MiB";
  }
  EXPECT_GT(refused, 0);
  EXPECT_GT(taken, 0);
}
#endif

TEST_F(CheckAndTrain, OfARunThatIsThereAlready) {
  ASSERT_NO_FATAL_FAILURE(prepare());
  const auto finished = [] {};
  const auto stopped = [&] { only_step_1(); };
  const auto damaged = [&] { damage(1), damage(2); };
  const std::string on = "--resume=auto", more = "--train.steps=3", may = "--allow-change=train.steps";
  expect_the_same({
      {"checkpoints in the way, and a vocabulary", tiny({small}), 2, "", finished},
      {"checkpoints in the way, and a device", tiny({no_device}), 2, "", finished},
      {"checkpoints in the way, and memory", too_large, 2, "", finished},
      {"checkpoints in the way, and room", tiny({}), 2, little, finished},
      {"checkpoints in the way, and a tokenizer", tiny({foreign}), 2, "", finished},
      {"finished", tiny({on}), 0, "", finished},
      {"finished, and room", tiny({on}), 0, little, finished},
      {"finished, and a change of no number", tiny({on, "--train.keep=7"}), 0, little, finished},
      {"finished, and a device", tiny({on, no_device}), 2, "", finished},
      {"finished, and what may change does not", tiny({on, may}), 0, "", finished},
      {"finished, and more steps", tiny({on, more}), 2, "", finished},
      {"finished, and more steps without room", tiny({on, more}), 2, little, finished},
      {"finished, and more steps that may be", tiny({on, more, may}), 0, "", finished},
      {"finished, and more steps that may be, without room", tiny({on, more, may}), 6, little, finished},
      {"finished, and a change without effect", tiny({on, "--seed=3", "--allow-change=seed"}), 2, "",
       finished},
      {"again, and a device", tiny({"--resume=no", no_device}), 2, "", finished},
      {"again, and room", tiny({"--resume=no"}), 6, little, finished},
      {"again", tiny({"--resume=no"}), 0, "", finished},
      {"damaged, and a device", tiny({on, no_device}), 3, "", damaged},
      {"damaged, and a tokenizer", tiny({on, foreign}), 3, "", damaged},
      {"the newest damaged", tiny({on}), 0, "", [&] { damage(2); }},
      {"the newest damaged, and a change", tiny({on, "--seed=3"}), 2, "", [&] { damage(2); }},
      {"another model, and room", tiny({on, "--model.heads=4"}), 2, little, stopped},
      {"another tokenizer, and a change", tiny({on, foreign, "--seed=3"}), 3, "", stopped},
      {"another text, and room", tiny({on, "--data.file=other.h5"}), 2, little, stopped},
      {"another text that may be, and room", tiny({on, "--data.file=other.h5", "--allow-change=data"}), 6,
       little, stopped},
      {"fewer steps than are done, and a device",
       tiny({on, "--train.steps=1", may, no_device, "--schedule.warmup_steps=1"}), 2, "", finished},
      {"two changes", tiny({on, "--seed=3", "--optim.beta2=0.9"}), 2, "", stopped},
      {"two changes, one of them allowed", tiny({on, "--seed=3", "--optim.beta2=0.9", "--allow-change=seed"}),
       2, "", stopped},
      {"a checkpoint that is not the newest, and a device",
       tiny({"--resume=runs/tiny/checkpoints/step_00000001.h5", no_device}), 2, "", finished},
      {"the newest by its name, and a change",
       tiny({"--resume=runs/tiny/checkpoints/step_00000002.h5", "--seed=3"}), 2, "", finished},
      {"another run's checkpoint, and a change",
       tiny({"--name=new", "--resume=runs/parent/checkpoints/step_00000001.h5", "--seed=3"}), 2, "",
       finished},
      {"another run's checkpoint, and what has no room",
       tiny({"--name=new", "--resume=runs/parent/checkpoints/step_00000001.h5"}), 6, little, finished},
  });
}

TEST_F(CheckAndTrain, OfABranch) {
  ASSERT_NO_FATAL_FAILURE(prepare());
  const auto from = [](const std::string& parent, Words more) {
    more.insert(more.begin(), {"new.toml", "--from", parent});
    return more;
  };
  const std::string parent = "runs/parent@1", on = "--resume=auto";
  const auto begun = [&] {
    ASSERT_EQ(run_plainly({"train", "new.toml", "--from", "runs/parent@1", "--train.keep=9"}), 0) << output_;
    fs::remove(folder_ / "runs/new/checkpoints/step_00000004.h5");
  };
  const auto replaced = [&] {
    fs::copy_file(folder_ / "other.h5", folder_ / "data.h5", fs::copy_options::overwrite_existing);
  };
  expect_the_same({
      {"nothing is wrong", from(parent, {}), 0},
      {"a parent that is not there, and a folder", from("runs/nobody", {no_folder}), 3},
      {"a step that is not there, and data", from("runs/parent@7", {no_data}), 3},
      {"a step that is none, and data", from("runs/parent@x", {no_data}), 2},
      {"another model, and data", from(parent, {"--model.heads=4", no_data}), 2},
      {"no step left, and room", from("runs/parent", {"--train.steps=2"}), 2, little},
      {"the parent's own name, and a device", from(parent, {"--name=parent", no_device}), 2},
      {"a checkpoint in the way, and a device", from(parent, {"--name=tiny", no_device}), 2},
      {"data, and a device", from(parent, {no_data, no_device}), 3},
      {"another tokenizer, and a device", from(parent, {foreign, no_device}), 3},
      {"another tokenizer, and room", from(parent, {foreign}), 3, little},
      {"two ways to begin, and data", from(parent, {"--train.init=runs/tiny", no_data}), 2},
      {"a device, and room", from(parent, {no_device}), 2, little},
      {"room", from(parent, {}), 6, little},
      {"no file and no name, and data", {"--from", parent, no_data}, 2},
      {"no file", {"--from", parent, "--name=x", "--train.steps=3"}, 0},
      {"it goes on", from(parent, {on}), 0, "", begun},
      {"it goes on, and room", from(parent, {on}), 6, little, begun},
      {"it goes on from another parent, and data", from("runs/tiny@2", {on, no_data}), 2, "", begun},
      {"it goes on with a change, and a device", from(parent, {on, "--seed=3", no_device}), 2, "", begun},
      {"it goes on with a change that may be, and a device",
       from(parent, {on, "--seed=3", "--allow-change=seed", no_device}), 2, "", begun},
      {"another text under the same name, and room", from(parent, {}), 2, little, replaced},
      {"another text under the same name that may be, and room", from(parent, {"--allow-change=data"}), 6,
       little},
  });
}

TEST_F(CheckAndTrain, OfARunWithOthersWeights) {
  ASSERT_NO_FATAL_FAILURE(prepare());
  const auto with = [](Words more) {
    more.insert(more.begin(), {"tiny.toml", "--name=tuned", "--train.init=runs/parent"});
    return more;
  };
  expect_the_same({
      {"nothing is wrong", with({}), 0},
      {"room", with({}), 6, little},
      {"another model, and data", with({"--model.heads=4", no_data}), 2},
      {"another tokenizer, and a device", with({foreign, no_device}), 3},
      {"another tokenizer, and a start", with({foreign, unreached}), 3},
      {"a start, and room", with({unreached}), 2, little},
      {"its own folder, and a device", {"tiny.toml", "--train.init=runs/tiny", "--resume=no", no_device}, 2},
      {"its weights are damaged, and a folder", with({no_folder}), 3, "",
       [&] {
         for (const int step : {1, 2})
           fs::resize_file(folder_ / fmt::format("runs/parent/checkpoints/step_{:08}.h5", step), 1000);
       }},
  });
}

}  // namespace
}  // namespace mxtape::test
