#include <fmt/ranges.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <fstream>
#include <limits>
#include <set>
#include <sstream>
#include <utility>

#include "core/files/atomic_file.h"
#include "core/text/sections.h"
#include "program/plan/run_plan.h"
#include "program/records/room.h"
#include "tests/program/program.h"
#include "tests/train/tiny_run.h"

namespace mxtape::test {
namespace {

/// A recipe whose data and folder are in a temporary place.
struct Place {
  TemporaryFolder folder;
  Recipe recipe = tiny_recipe(20);

  Place() {
    recipe.data.file = (folder / "tiny.h5").string();
    recipe.train.out = (folder / "runs").string();
    tiny_data().write(recipe.data.file);
  }
  RunPlan checked(const std::string& resume = "") const {
    RunPlan plan(recipe);
    plan.writes = true;
    plan.words.resume = resume;
    plan.rehearses = true;
    plan_through(plan);
    return plan;
  }
  std::vector<Error> problems() const { return checked().problems; }
  std::string notes() const {
    std::string text;
    for (const auto& note : checked().notes) text += note + "\n";
    return text;
  }
};

/// That check finds one problem, with this code and these words.
void expect_one_problem(const Place& place, ExitCode code, const std::string& words) {
  const auto problems = place.problems();
  ASSERT_EQ(problems.size(), 1u);
  EXPECT_EQ(problems[0].code(), code);
  EXPECT_NE(std::string(problems[0].what()).find(words), std::string::npos) << problems[0].what();
}

TEST(Check, SaysWhereTheKeysOfASectionWereSetInOneColumnWhateverTheirValuesLength) {
  const Place place;
  write_atomically(place.folder / "tiny.toml", to_toml(place.recipe));
  std::vector<std::string> words{"check", "tiny.toml", "--precision.head=bf16",
                                 "--precision.gradients=mxfp4 rule=even round=stochastic"};
  for (int all = 0; all < 2; ++all) {
    Program check(place.folder.path(), words);
    ASSERT_EQ(check.wait(), 0) << check.output();
    std::istringstream lines{std::string(section_of(check.output(), "precision"))};
    std::set<std::size_t> columns;
    std::size_t seen = 0;
    for (std::string line; std::getline(lines, line) && !line.empty();)
      if (const auto sign = line.find("  # "); sign != std::string::npos) ++seen, columns.insert(sign);
    EXPECT_GE(seen, 5u) << check.output();
    EXPECT_EQ(columns,
              std::set<std::size_t>{std::string("gradients = \"mxfp4 rule=even round=stochastic\"").size()})
        << check.output();
    words.emplace_back("--all");
  }
}

TEST(Check, ARunThatCanRunHasNoProblemAndLeavesNothingBehind) {
  const Place place;
  EXPECT_TRUE(place.problems().empty());
  EXPECT_EQ(place.notes(), "");
  EXPECT_EQ(place.folder.names(), std::vector<std::string>{"tiny.h5"});
}

TEST(Check, MissingAndAlteredDataAreFound) {
  Place place;
  std::fstream file(place.recipe.data.file, std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(4096);
  file.put('x');
  file.close();
  expect_one_problem(place, ExitCode::data, "tiny.h5");
  place.recipe.data.file = (place.folder / "gone.h5").string();
  expect_one_problem(place, ExitCode::data, "gone.h5");
  place.recipe.data.file = "";
  expect_one_problem(place, ExitCode::usage, "data.file is not set");
}

TEST(Check, AVocabularyThatDoesNotFitIsFound) {
  Place place;
  place.recipe.model.vocabulary = 3;
  expect_one_problem(place, ExitCode::data, "model.vocabulary is 3");
}

TEST(Check, AContextLongerThanASplitIsFoundForEachSplit) {
  Place place;
  place.recipe.model.context = 1 << 20;
  place.recipe.train.batch_size = 1;
  place.recipe.model.width = 2;
  const auto problems = place.problems();
  ASSERT_GE(problems.size(), 2u);
  EXPECT_NE(std::string(problems[0].what()).find("its train split"), std::string::npos);
  EXPECT_NE(std::string(problems[1].what()).find("its validation split"), std::string::npos);
}

TEST(Check, AnUnknownDeviceAndTooMuchMemoryAreFound) {
  Place place;
  place.recipe.compute.device = "abacus";
  expect_one_problem(place, ExitCode::usage, "abacus");
  place.recipe.compute.device = "cpu";
  place.recipe.train.batch_size = 1 << 20;
  place.recipe.model.layers = 1000;
  expect_one_problem(place, ExitCode::resource, "the device has");
}

TEST(Check, AFolderThatCannotBeWrittenIsFound) {
  Place place;
  place.recipe.train.out = place.recipe.data.file;  // a file is no folder
  expect_one_problem(place, ExitCode::resource, "no folder that can be written");
  place.recipe.train.out = std::string(300, 'x');
  expect_one_problem(place, ExitCode::resource, "the run's folder cannot be made");
}

TEST(Check, SeveralProblemsAreAllReported) {
  Place place;
  place.recipe.compute.device = "abacus";
  place.recipe.train.out = place.recipe.data.file;
  place.recipe.data.file = "gone.h5";
  EXPECT_EQ(place.problems().size(), 3u);
}

TEST(RunPlan, ThrowsTheFirstProblemAndReadsNothingTwice) {
  Place place;
  place.recipe.compute.device = "abacus";
  RunPlan plan(place.recipe);
  plan.writes = true;
  plan_through(plan, Station::data);
  std::filesystem::remove(place.recipe.data.file);
  try {
    plan_through(plan);
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ExitCode::usage) << e.what();
    EXPECT_EQ(plan.next, Station::device);
  }
  plan.recipe.compute.device = "cpu";
  plan_through(plan);
  EXPECT_TRUE(plan.memory && plan.problems.empty());
  EXPECT_TRUE(place.folder.names().empty()) << "and it writes nothing";
}

TEST(RunPlan, StepsThatAreComputedAgainTakeAllThreadsAndNoValidationSplit) {
  Place place;
  TokenFile data = tiny_data();
  data.validation = Split::from_tokens(std::vector<std::int32_t>{1, 2, 3}, data.tokenizer.size());
  TokenFile(data).write(place.recipe.data.file);
  place.recipe.compute.threads = 1;
  RunPlan plan(place.recipe);
  compute_again(plan, "", "");
  plan_through(plan, Station::data);
  EXPECT_EQ(plan.recipe.compute.threads, 0) << "0: all";
  plan.recipe.data.file = "";
  EXPECT_THROW(compute_again(plan, "", ""), Error);
}

TEST(Check, KeysWithoutEffectAreNoted) {
  Place place;
  place.recipe.origins["schedule.decay_fraction"] = "mine.toml:3";
  EXPECT_NE(place.notes().find("mine.toml:3: schedule.decay_fraction has no effect"), std::string::npos);
}

TEST(Check, ADecayOfNoStepIsNoted) {
  Place place;
  place.recipe.schedule.kind = ScheduleKind::wsd;
  ScheduleConfig& s = place.recipe.schedule;
  const auto expect_noted = [&] {
    EXPECT_EQ(place.notes(),
              fmt::format("default: schedule.decay_fraction = {}, after schedule.warmup_steps = {}: "
                          "none of the 20 steps decays\n",
                          s.decay_fraction, s.warmup_steps));
  };
  for (const float share : {0.f, 0.04f}) s.decay_fraction = share, expect_noted();
  s.decay_fraction = 0.06f;
  EXPECT_EQ(place.notes(), "");
  for (const int warmup : {19, 20}) s.warmup_steps = warmup, expect_noted();
  s.final_fraction = 1;
  EXPECT_EQ(place.notes(), "");
}

TEST(Check, PrecisionThatMaySurpriseIsNoted) {
  Place place;
  place.recipe.precision.weights = "mxfp4";
  place.recipe.precision.gradients = "mxfp4 round=stochastic";
  place.recipe.precision.rules = {{"blocks.0.*", {"wgrad.*"}, "mxfp6", "mine.toml:9"}};
  EXPECT_NE(place.notes().find("the head stays f32"), std::string::npos) << place.notes();
  EXPECT_NE(place.notes().find("mine.toml:9: this rule rounds wgrad.dy"), std::string::npos) << place.notes();
}

TEST(Check, TheWindowsOfAValidationAndTheirShareAreTold) {
  Place place;
  place.recipe.train.eval_windows = auto_windows;
  const auto facts = place.checked().facts;
  // 20 steps of 4 sequences, 3 times the work each: 240, of which a fifth is 48.
  const auto all = Windows(tiny_data().validation, 16).count();
  const auto want =
      fmt::format("validation  48 of {} windows, 768 tokens, at the end, 17% of the run's work", all);
  EXPECT_NE(std::find(facts.begin(), facts.end(), want), facts.end())
      << fmt::format("{}", fmt::join(facts, "\n"));
  EXPECT_EQ(place.notes(), "");
  place.recipe.train.eval_windows = all + 1;
  EXPECT_EQ(place.notes(), fmt::format("train.eval_windows = {}: the data has {}\n", all + 1, all));
}

TEST(Check, CheckpointsThatAreThereAreAProblemUnlessTheRunIsResumed) {
  Place place;
  std::filesystem::create_directories(place.folder / "runs/tiny/checkpoints");
  const auto file = place.folder / "runs/tiny/checkpoints/step_00000000.h5";
  TinyRun run(with_vocabulary(place.recipe, tiny_data().tokenizer));
  run.data.hash = TokenFile::read(place.recipe.data.file).hash;
  run.trainer.save(file);
  expect_one_problem(place, ExitCode::usage, "add --resume auto to go on");
  EXPECT_TRUE(place.checked("auto").problems.empty());
  const std::string own = std::exchange(place.recipe.data.file, (place.folder / "foreign.h5").string());
  TokenFile foreign = tiny_data();
  foreign.tokenizer = Tokenizer::of_ids(foreign.tokenizer.size() + 1);
  TokenFile(foreign).write(place.recipe.data.file);
  const auto unknown = place.checked("auto").problems;
  ASSERT_EQ(unknown.size(), 1u) << "no --allow-change could help: " << unknown.back().what();
  EXPECT_NE(std::string(unknown[0].what()).find("its tokenizer"), std::string::npos);
  place.recipe.data.file = own;
  std::filesystem::resize_file(file, 1000);
  const auto damaged = place.checked("auto").problems;
  ASSERT_EQ(damaged.size(), 1u);
  EXPECT_EQ(damaged[0].code(), ExitCode::data);
}

TEST(Check, TheProgramExitsWithTheCodeOfTheFirstProblem) {
  const Place place;
  std::ofstream(place.folder / "mine.toml")
      << "extends = \"shakespeare-mxfp4\"\ndata.file = \"tiny.h5\"\nmodel.context = 16\n";
  Program good(place.folder.path(), {"check", "mine.toml", "--optim.beta2=0.95", "--train.steps", "300"});
  EXPECT_EQ(good.wait(), 0);
  const std::string text = good.output();
  EXPECT_NE(text.find("beta2 = 0.95                          # command line"), std::string::npos) << text;
  EXPECT_NE(text.find("# mine.toml:3"), std::string::npos) << text;
  EXPECT_NE(text.find("fprop  x  mxfp4 rule=even"), std::string::npos) << text;
  EXPECT_NE(text.find("ready: mxtape train mine.toml --optim.beta2=0.95 --train.steps 300\n"),
            std::string::npos)
      << text;

  EXPECT_EQ(Program(place.folder.path(), {"check", "mine.toml", "--data.file=gone.h5"}).wait(), 3);
  Program misspelt(place.folder.path(), {"check", "mine.toml", "--optim.betta2=0.95"});
  EXPECT_EQ(misspelt.wait(), 2);
  EXPECT_NE(misspelt.output().find("did you mean 'optim.beta2'?"), std::string::npos) << misspelt.output();
}

// An unwritable folder (6) goes before a checkpoint that does not fit (3) and a device that is not there (2).
TEST(Check, OfSeveralProblemsItEndsWithTheCodeWithWhichTrainEnds) {
  const Place place;
  std::ofstream(place.folder / "mine.toml")
      << "extends = \"shakespeare\"\ndata.file = \"tiny.h5\"\nmodel.context = 16\n";
  const std::string no_folder = "--train.out=tiny.h5", no_device = "--device=abacus",
                    small = "--model.vocabulary=3";
  for (const auto& [code, problems] :
       {std::pair{6, std::vector{no_folder, no_device, small}}, {3, {no_device, small}}, {2, {no_device}}})
    for (const char* command : {"check", "train"}) {
      std::vector<std::string> words{command, "mine.toml"};
      words.insert(words.end(), problems.begin(), problems.end());
      EXPECT_EQ(Program(place.folder.path(), words).wait(), code) << command;
    }
}

TEST(Check, NoMoreCheckpointsAreKeptThanThereAreSteps) {
  Place place;
  place.recipe.model.vocabulary = tiny_data().tokenizer.size();
  place.recipe.train.save_every = 1;
  place.recipe.train.keep = std::numeric_limits<std::int64_t>::max();
  const MemoryPlan plan = memory_plan(place.recipe);
  const auto one = double(checkpoint_bytes(plan, place.recipe)), records = double(record_bytes(place.recipe));
  EXPECT_EQ(disk_needed(plan, place.recipe), 21 * one + records) << "20 steps, and one while it is written";
}

// The constants of checkpoint_bytes() were measured: they hold for tensors of any number and for any kind.
TEST(Check, ACheckpointsFileHasAlmostTheBytesThatAreSaid) {
  const TemporaryFolder folder;
  for (const std::int64_t layers : {1, 2, 7, 24}) {
    Recipe recipe = with_vocabulary(tiny_mxfp4_recipe(2), tiny_data().tokenizer);
    recipe.model.layers = layers;
    TinyRun run(recipe);
    const auto file = folder / fmt::format("{}.h5", layers);
    run.trainer.save(file);
    const MemoryPlan plan = memory_plan(recipe);
    const auto said = checkpoint_bytes(plan, recipe), is = std::int64_t(std::filesystem::file_size(file));
    EXPECT_GE(said, is) << layers;
    EXPECT_LE(said, is + (16 << 10) + 50 * plan.tensors) << layers;
  }
}

TEST(Check, OfAMillionSequencesAtATimeTakesNoMemoryForThem) {
  const Place place;
  std::ofstream(place.folder / "mine.toml")
      << "extends = \"shakespeare\"\ndata.file = \"tiny.h5\"\nmodel.context = 1024\n";
  Program check(place.folder.path(), {"check", "mine.toml", "--train.batch_size=1048576"});
  EXPECT_EQ(check.wait(), int(ExitCode::resource)) << check.output();
  EXPECT_NE(check.output().find("memory: the run needs about "), std::string::npos) << check.output();
  struct rusage usage {};
  ::getrusage(RUSAGE_CHILDREN, &usage);
  EXPECT_LT(usage.ru_maxrss, 1 << 20) << "KiB: the largest of the programs that this one has started";
}

TEST(Recipes, TheProgramListsShowsAndDescribes) {
  const TemporaryFolder folder;
  Program list(folder.path(), {"recipes"});
  EXPECT_EQ(list.wait(), 0);
  EXPECT_NE(list.output().find("shakespeare-mxfp4"), std::string::npos);
  Program show(folder.path(), {"recipes", "precision/tseng2025"});
  EXPECT_EQ(show.wait(), 0);
  EXPECT_NE(show.output().find("alpha=0.75"), std::string::npos);
  EXPECT_EQ(Program(folder.path(), {"recipes", "shakspeare"}).wait(), 2);
  Program reference(folder.path(), {"recipes", "--reference"});
  EXPECT_EQ(reference.wait(), 0);
  EXPECT_NE(reference.output().find("\nbeta2 = 0.99 "), std::string::npos);
}

}  // namespace
}  // namespace mxtape::test
