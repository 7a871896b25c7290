#include "train/saved/header.h"

#include <gtest/gtest.h>

#include "core/files/atomic_file.h"
#include "tests/train/tiny_run.h"

namespace mxtape {
namespace {

CheckpointHeader written_and_read(const CheckpointHeader& header) {
  const TemporaryFolder folder;
  Hdf5Writer file(folder / "x.h5");
  write_header(file, checkpoint_content, 1, header);
  file.commit(Seal::yes);
  return read_header(*open_sealed(folder / "x.h5"), 1);
}

CheckpointHeader tiny_header() {
  return {.step = 3,
          .recipe = test::tiny_recipe(10),
          .tokenizer = Tokenizer::of_ids(5),
          .data_hash = "00",
          .lineage = ""};
}

// An attribute of HDF5 holds 64 KiB.
TEST(SavedHeader, ARecipeAndALineageOfAnyLengthComeBack) {
  CheckpointHeader header = tiny_header();
  for (int i = 0; i < 1000; ++i)
    header.recipe.precision.rules.push_back(
        {.layers = "blocks.0.*", .slots = {"fprop.x"}, .format = i % 2 ? "mxfp4" : "mxfp8", .where = ""});
  header.lineage = "[\"" + std::string(100'000, 'x') + "\"]";
  ASSERT_GT(to_toml(header.recipe).size(), 64u << 10);
  const CheckpointHeader read = written_and_read(header);
  EXPECT_EQ(differences(read.recipe, header.recipe), std::vector<std::string>{});
  EXPECT_EQ(read.lineage, header.lineage);
}

TEST(SavedHeader, ShortTextsAreAttributesUnderTheirOwnNames) {
  CheckpointHeader header = tiny_header();
  header.lineage = "[]";
  const TemporaryFolder folder;
  Hdf5Writer file(folder / "x.h5");
  write_header(file, checkpoint_content, 1, header);
  file.commit(Seal::yes);
  const auto reader = open_sealed(folder / "x.h5");
  EXPECT_EQ(reader->text_attribute("/", "lineage"), "[]");
  EXPECT_EQ(reader->text_attribute("/", "recipe"), to_toml(without_whereabouts(header.recipe)));
  EXPECT_EQ(written_and_read(tiny_header()).lineage, "");
}

}  // namespace
}  // namespace mxtape
