#include "train/checkpoint.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <random>

#include "core/files/atomic_file.h"
#include "data/hdf5/seal.h"
#include "program/models/trained_model.h"
#include "tests/support/nightly.h"
#include "tests/train/tiny_run.h"

namespace mxtape {
namespace {

using test::TinyRun;

class CheckpointTest : public testing::Test {
 protected:
  CheckpointTest() {
    run_.run(2);
    run_.trainer.save(path_);
  }

  /// What CheckpointFile says about `bytes` in a file.
  std::string refusal(std::span<const std::byte> bytes) {
    const auto path = folder_.path() / "altered.h5";
    // Without write_atomically's fsync: this is called hundreds of times.
    std::ofstream(path, std::ios::binary)
        .write(reinterpret_cast<const char*>(bytes.data()), std::streamsize(bytes.size()));
    try {
      const CheckpointFile file(path);
      return "";
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), ExitCode::data) << e.what();
      return e.what();
    }
  }

  /// A checkpoint of a model of a few hundred numbers.
  std::vector<std::byte> small_checkpoint() {
    Recipe recipe = test::tiny_recipe(5);
    recipe.model.layers = 1;
    recipe.model.width = 4;
    recipe.model.context = 4;
    TinyRun run(recipe);
    run.run(1);
    run.trainer.save(folder_ / "small.h5");
    return read_whole(folder_ / "small.h5");
  }

  const TemporaryFolder folder_;
  const std::filesystem::path path_ = folder_.path() / "checkpoint.h5";
  TinyRun run_{test::tiny_recipe(5)};
};

TEST_F(CheckpointTest, GivesBackEveryParameterAndTheHeader) {
  const CheckpointFile file(path_);
  EXPECT_EQ(file.header().step, 2);
  EXPECT_EQ(file.header().tokenizer.to_json(), run_.data.tokenizer.to_json());
  EXPECT_EQ(file.header().recipe.model, run_.trainer.recipe().model);
  EXPECT_TRUE(differences(file.header().recipe, without_whereabouts(run_.trainer.recipe())).empty());

  TinyRun other(test::tiny_recipe(5));
  other.trainer.load(file);
  const auto want = run_.trainer.model().parameters(), got = other.trainer.model().parameters();
  ASSERT_EQ(got.size(), want.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    const auto a = got[i]->value.host(), b = want[i]->value.host();
    EXPECT_TRUE(std::equal(a.begin(), a.end(), b.begin(), b.end())) << want[i]->name;
  }
}

TEST_F(CheckpointTest, EvaluatesToTheLossThatItsRunSaw) {
  TinyRun run(test::tiny_mxfp4_recipe(3));  // weights are rounded at random, by the number of steps done
  run.run(2);
  run.trainer.save(folder_.path() / "stochastic.h5");
  const TrainedModel trained = load_trained_model(folder_.path() / "stochastic.h5");
  const Evaluation evaluation = evaluate(*trained.backend, *trained.model, run.data.validation,
                                         {.windows = run.recipe.train.eval_windows,
                                          .batch_size = run.recipe.train.batch_size,
                                          .pass = trained.next_pass(),
                                          .progress = {}});
  EXPECT_EQ(evaluation.loss, run.trainer.validate().loss);
}

TEST_F(CheckpointTest, EqualStatesGiveEqualBytes) {
  run_.trainer.save(folder_.path() / "again.h5");
  EXPECT_TRUE(read_whole(path_) == read_whole(folder_.path() / "again.h5"));
}

TEST_F(CheckpointTest, RefusesTwoThousandFlippedBitsAndEachOfTheSeal) {
  auto bytes = small_checkpoint();
  const int flips = test::is_nightly() ? 10'000 : 2'000;
  std::vector<std::size_t> bits;
  std::mt19937_64 random(1);
  for (int flip = 0; flip < flips; ++flip) bits.push_back(random() % (8 * bytes.size()));
  for (std::size_t bit = (bytes.size() - seal_bytes) * 8; bit < bytes.size() * 8; ++bit) bits.push_back(bit);
  for (auto bit : bits) {
    bytes[bit / 8] ^= std::byte(1 << bit % 8);
    ASSERT_NE(refusal(bytes), "") << "bit " << bit;
    bytes[bit / 8] ^= std::byte(1 << bit % 8);
  }
  EXPECT_EQ(refusal(bytes), "") << "unaltered, it is accepted";
  fmt::print("{} flips in {} bytes\n", bits.size(), bytes.size());
}

TEST_F(CheckpointTest, RefusesEveryTruncationAndAByteAppended) {
  auto bytes = small_checkpoint();
  bytes.push_back({});
  EXPECT_NE(refusal(bytes), "");
  const auto path = folder_.path() / "altered.h5";  // cut again and again, which is faster than to write it
  for (std::size_t length = bytes.size() - 1; length-- > 0;) {
    std::filesystem::resize_file(path, length);
    EXPECT_THROW(CheckpointFile{path}, Error) << length << " bytes";
    if (HasFailure()) break;
  }
  fmt::print("{} truncations\n", bytes.size() - 1);
}

TEST_F(CheckpointTest, IsNeverOverwritten) {
  const auto before = read_whole(path_);
  run_.run(3);
  EXPECT_THROW(run_.trainer.save(path_), Error);
  EXPECT_TRUE(read_whole(path_) == before);
}

TEST_F(CheckpointTest, OfAnotherModelIsRefusedByTheFirstTensorThatDoesNotFit) {
  Recipe wider = test::tiny_recipe(5);
  wider.model.width = 48;
  TinyRun other(wider);
  try {
    other.trainer.load(CheckpointFile(path_));
    FAIL();
  } catch (const Error& e) {
    const std::string text = e.what();
    EXPECT_EQ(e.code(), ExitCode::data);
    EXPECT_NE(text.find("'parameters/tokens.weight' is ["), std::string::npos) << text;
    EXPECT_NE(text.find(", 32], the model wants ["), std::string::npos) << text;
  }
}

TEST_F(CheckpointTest, WithMoreLayersThanTheModelIsRefused) {
  Recipe shallower = test::tiny_recipe(5);
  shallower.model.layers = 1;
  TinyRun other(shallower);
  EXPECT_THROW(other.trainer.load(CheckpointFile(path_)), Error);
}

TEST_F(CheckpointTest, SealedFileThatIsNoCheckpointIsRefusedByItsContent) {
  Hdf5Writer file(folder_.path() / "other.h5");
  file.attribute("/", "content", std::string("something else"));
  file.commit(Seal::yes);
  try {
    const CheckpointFile checkpoint(folder_.path() / "other.h5");
    FAIL();
  } catch (const Error& e) {
    EXPECT_NE(std::string(e.what()).find("not an mxtape checkpoint"), std::string::npos) << e.what();
  }
}

}  // namespace
}  // namespace mxtape
