#include <gtest/gtest.h>

#include <map>

#include "core/files/atomic_file.h"
#include "program/models/trained_model.h"
#include "program/plan/resume.h"
#include "tests/train/tiny_run.h"

namespace mxtape {
namespace {

using test::TinyRun;

TEST(ChooseStart, TakesTheNewestThatVerifiesAndSetsADamagedOneAside) {
  const TemporaryFolder folder;
  const RunFolder run(folder.path() / "run");
  TinyRun tiny(test::tiny_recipe(3));
  for (std::int64_t step : {1, 2, 3}) {
    tiny.run(step);
    tiny.trainer.save(run.checkpoint(step));
  }
  auto damaged = read_whole(run.checkpoint(3));
  damaged[damaged.size() / 2] ^= std::byte{1};
  write_atomically(run.checkpoint(3), damaged);

  const Beginning start = choose_start(run, "auto");
  EXPECT_EQ(start.file, run.checkpoint(2));
  ASSERT_EQ(start.notes.size(), 1u);
  EXPECT_NE(start.notes[0].find("step_00000003.h5"), std::string::npos) << start.notes[0];
  EXPECT_NE(start.notes[0].find("content hash differs"), std::string::npos) << start.notes[0];
  EXPECT_TRUE(std::filesystem::exists(run.checkpoint(3))) << "until it is known that the run can start";
  set_earlier_aside(run, start);
  EXPECT_FALSE(std::filesystem::exists(run.checkpoint(3))) << "its step will be written again";
  EXPECT_TRUE(std::filesystem::exists(run.checkpoint(3).string() + ".rejected")) << "nothing is lost";
}

TEST(ChooseStart, RefusesToStartFromNothingBesideCheckpoints) {
  const TemporaryFolder folder;
  const RunFolder run(folder.path() / "run");
  EXPECT_FALSE(choose_start(run, "").file);
  TinyRun tiny(test::tiny_recipe(1));
  tiny.trainer.save(run.checkpoint(0));
  try {
    choose_start(run, "");
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ExitCode::usage);
    EXPECT_NE(std::string(e.what()).find("--resume auto"), std::string::npos) << e.what();
  }
  write_atomically(run.checkpoint(0),
                   std::string_view("not a checkpoint at all, but long enough for a seal"));
  try {
    choose_start(run, "auto");
    FAIL() << "all are damaged: starting again must be asked for";
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ExitCode::data);
    EXPECT_NE(std::string(e.what()).find("--resume no"), std::string::npos) << e.what();
  }
  EXPECT_TRUE(std::filesystem::exists(run.checkpoint(0))) << "a refusal changes nothing";
}

TEST(ChooseStart, NoKeepsTheEarlierRunInAFolderOfItsOwn) {
  const TemporaryFolder folder;
  const RunFolder run(folder.path() / "run");
  TinyRun tiny(test::tiny_recipe(1));
  tiny.trainer.save(run.checkpoint(0));
  for (const auto& file : {run.recipe(), run.recipe_until(7), run.device(), run.metrics(), run.events()})
    write_atomically(file, std::string_view("x"));
  const Beginning start = choose_start(run, "no");
  EXPECT_FALSE(start.file);
  EXPECT_EQ(run.checkpoints().size(), 1u) << "until it is known that the run can start";
  EXPECT_EQ(set_earlier_aside(run, start).size(), 1u);
  EXPECT_TRUE(run.checkpoints().empty());
  for (const char* file : {"checkpoints/step_00000000.h5", "recipe.toml", "recipe.until_step_00000007.toml",
                           "device.txt", "metrics.jsonl", "events.out.tfevents.mxtape"}) {
    EXPECT_TRUE(std::filesystem::exists(run.path() / "before-1" / file)) << file;
    EXPECT_FALSE(std::filesystem::exists(run.path() / file)) << file;
  }
}

TEST(CheckChanges, RefusesWhatChangesNumbersUnlessItIsAllowed) {
  const Recipe before = test::tiny_recipe(5);
  Recipe after = before;
  after.optim.beta2 = 0.9f;
  after.precision.weights = "mxfp6_e2m3";
  after.train.save_every = 3;
  const CheckpointHeader header{.step = 1, .recipe = before, .tokenizer = {}, .data_hash = "a"};
  try {
    check_changes(header, after, "b", {"optim.beta2"});
    FAIL();
  } catch (const Error& e) {
    const std::string text = e.what();
    EXPECT_EQ(e.code(), ExitCode::usage);
    EXPECT_NE(text.find("--allow-change precision.weights"), std::string::npos) << text;
    EXPECT_NE(text.find("--allow-change data"), std::string::npos) << text;
    EXPECT_EQ(text.find("optim.beta2"), std::string::npos) << text;
    EXPECT_EQ(text.find("save_every"), std::string::npos) << text;
  }
  const auto notes = check_changes(header, after, "b", {"optim", "precision", "data"});
  EXPECT_EQ(notes.size(), 4u) << "every change is said, allowed or not";
  EXPECT_TRUE(check_changes(header, before, "a", {}).empty());
}

TEST(ChooseStart, SaysThatAnAttemptWithoutACheckpointIsBegunAgain) {
  const TemporaryFolder folder;
  const RunFolder run(folder.path() / "run");
  const std::string note = "an earlier attempt of 17 steps left no checkpoint; starting at step 0";
  std::string records;
  for (int step = 1; step <= 17; ++step)
    records += fmt::format("{{\"step\":{},\"loss\":1,\"ms\":1,\"tokens_per_second\":1}}\n", step);
  for (const char* resume : {"", "auto"})
    for (const auto& said : choose_start(run, resume).notes) EXPECT_NE(said, note) << "nothing is there yet";
  write_atomically(run.metrics(), records);
  for (const char* resume : {"", "auto"})
    EXPECT_EQ(choose_start(run, resume).notes, std::vector{note}) << resume;
  // A branch's steps are not its parent's.
  EXPECT_EQ(choose_start(run, "auto", 5).notes[0],
            "an earlier attempt of 17 steps left no checkpoint; starting at step 5");
  set_earlier_aside(run, choose_start(run, "no"));
  EXPECT_TRUE(std::filesystem::exists(run.path() / "before-1/metrics.jsonl"));
}

TEST(ChooseStart, SaysWhatResumeTakesWhereNoFileIsNamed) {
  const TemporaryFolder folder;
  const RunFolder run(folder.path() / "run");
  write_atomically(run.checkpoint(1), std::string_view("one"));
  try {
    choose_start(run, "Auto");
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ExitCode::data);
    EXPECT_NE(std::string(e.what()).find("'Auto' is no file; want auto, no or a checkpoint's path"),
              std::string::npos)
        << e.what();
  }
}

TEST(CheckChanges, TakesKeysSectionsAndDataOnly) {
  EXPECT_NO_THROW(require_known_changes({"optim.learning_rate", "optim", "seed", "precision.rules", "data"}));
  for (const auto& [word, hint] :
       {std::pair{"optim.learnin_rate", "'optim.learning_rate'"}, {"optm", "'optim'"}}) {
    try {
      require_known_changes({"seed", word});
      FAIL() << word;
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), ExitCode::usage);
      EXPECT_NE(std::string(e.what()).find(fmt::format("did you mean {}?", hint)), std::string::npos)
          << e.what();
    }
  }
}

TEST(CheckChanges, RefusesARunThatEndsBeforeTheCheckpoint) {
  const Recipe recipe = test::tiny_recipe(5);
  const auto changes_at = [&](std::int64_t step) {
    return check_changes({.step = step, .recipe = recipe, .tokenizer = {}, .data_hash = "a"}, recipe, "a",
                         {"train.steps"});
  };
  EXPECT_TRUE(changes_at(5).empty()) << "a run that has ended is said to have ended";
  try {
    changes_at(6);
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ExitCode::usage);
    EXPECT_NE(std::string(e.what()).find("at step 6, train.steps = 5"), std::string::npos) << e.what();
  }
}

TEST(CheckChanges, RefusesChangesForWhichNoStepIsLeft) {
  const Recipe before = test::tiny_recipe(5);
  Recipe after = before;
  after.train.keep = 7;
  const CheckpointHeader header{.step = 5, .recipe = before, .tokenizer = {}, .data_hash = "a"};
  EXPECT_EQ(check_changes(header, after, "a", {}).size(), 1u) << "no number changes";
  after.precision.weights = "mxfp4";
  for (const auto& allowed : {std::vector<std::string>{}, {"precision"}}) {
    try {
      check_changes(header, after, "a", allowed);
      FAIL();
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), ExitCode::usage);
      const std::string text = e.what();
      EXPECT_NE(text.find("all 5 steps are done"), std::string::npos) << text;
      EXPECT_NE(text.find("precision.weights: \"f32\" -> \"mxfp4\""), std::string::npos) << text;
      EXPECT_EQ(text.find("train.keep"), std::string::npos) << text;
    }
  }
}

TEST(CheckChanges, RefusesAnotherTokenizerAndNamesBothAndTheFirstTokenThatDiffers) {
  const auto tokenizer = [](std::string_view text) {
    return Tokenizer::from_text(Tokenizer::Kind::characters, text);
  };
  const auto refusal = [&](const Tokenizer& there, const Tokenizer& here) -> std::string {
    TokenFile data;
    data.tokenizer = here;
    try {
      require_same_tokenizer({.step = 1, .recipe = {}, .tokenizer = there, .data_hash = ""}, "run/a b.h5",
                             data, "new.h5");
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), ExitCode::data);
      return e.what();
    }
    return "";
  };
  EXPECT_EQ(refusal(tokenizer("abc"), tokenizer("cba")), "");
  EXPECT_EQ(
      refusal(tokenizer("\nabc"), tokenizer("\nabd")),
      "new.h5: its tokenizer (4 characters) is not the one that run/a b.h5 was trained with (4 characters): "
      "token 3 is 'c' there and 'd' here; prepare the text with that one, `mxtape prepare TEXT "
      "--tokenizer-of 'run/a b.h5' --out FILE`");
  EXPECT_NE(refusal(tokenizer("abc"), tokenizer("ab")), "")
      << "a smaller one, though its tokens are the same";
  EXPECT_NE(refusal(tokenizer("abc"), Tokenizer()), "");
  EXPECT_NE(refusal(Tokenizer::of_ids(7), Tokenizer::of_ids(8)).find("want ids of the same tokenizer"),
            std::string::npos);
}

/// The recipe files of a run, by name: the learning rate that each sets.
std::map<std::string, float> learning_rates(const RunFolder& run) {
  std::map<std::string, float> rates;
  for (const auto& entry : std::filesystem::directory_iterator(run.path()))
    if (entry.path().extension() == ".toml") {
      const auto bytes = read_whole(entry.path());
      const std::string text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
      rates[entry.path().filename().string()] = recipe_from_toml(text, "r").optim.learning_rate;
    }
  return rates;
}

TEST(WriteRecipe, KeepsTheRecipeOfTheStepsBeforeAChange) {
  const TemporaryFolder folder;
  const RunFolder run(folder.path() / "run");
  const auto resume_at = [&](std::int64_t step, float learning_rate) {
    Recipe recipe = test::tiny_recipe(20);
    recipe.optim.learning_rate = learning_rate;
    Beginning start;
    if (step > 0) start.file = run.checkpoint(step);
    write_recipe(run, start, step, recipe);
    return learning_rates(run);
  };
  using Files = std::map<std::string, float>;
  const std::string now = "recipe.toml", until_4 = "recipe.until_step_00000004.toml",
                    until_6 = "recipe.until_step_00000006.toml", until_8 = "recipe.until_step_00000008.toml";
  EXPECT_EQ(resume_at(0, 1), (Files{{now, 1}}));
  EXPECT_EQ(resume_at(4, 1), (Files{{now, 1}})) << "nothing changed";
  EXPECT_EQ(resume_at(4, 2), (Files{{now, 2}, {until_4, 1}}));
  EXPECT_EQ(resume_at(4, 3), (Files{{now, 3}, {until_4, 1}})) << "no step of the second is left";
  EXPECT_EQ(resume_at(8, 4), (Files{{now, 4}, {until_4, 1}, {until_8, 3}}));
  EXPECT_EQ(resume_at(6, 5), (Files{{now, 5}, {until_4, 1}, {until_6, 3}})) << "steps 7 and 8 come again";
  EXPECT_EQ(resume_at(4, 1), (Files{{now, 1}})) << "what steps 1 to 4 were trained with goes on";
}

TEST(WriteRecipe, KeepsNothingWhereTheStepsBeforeAreInAnotherFolder) {
  const TemporaryFolder folder;
  const RunFolder run(folder.path() / "run"), other(folder.path() / "other");
  write_recipe(run, Beginning(), 0, test::tiny_recipe(20));  // of an attempt that left no checkpoint
  Beginning start;
  start.file = other.checkpoint(4);
  write_recipe(run, start, 4, test::tiny_recipe(30));
  EXPECT_EQ(learning_rates(run).size(), 1u);
}

}  // namespace
}  // namespace mxtape
