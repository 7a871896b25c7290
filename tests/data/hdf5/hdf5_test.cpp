#include "data/hdf5/hdf5.h"

#include <gtest/gtest.h>
#include <hdf5.h>

#include <array>
#include <cmath>
#include <cstdlib>
#include <functional>

#include "core/files/atomic_file.h"
#include "data/hdf5/hdf5_library.h"
#include "data/hdf5/seal.h"
#include "tests/support/temporary_folder.h"

namespace mxtape {
namespace {

void fill(Hdf5Writer& writer) {
  const float values[] = {1.5f, -0.f, 0x1p-149f, 3e38f, 5.f, 6.f};
  const std::uint16_t halves[] = {0x3f80, 0xc000};
  writer.dataset("layers/0/weight", {2, 3}, DType::f32, values);
  writer.dataset("b", {2}, DType::bf16, halves);
  writer.dataset_u16("tokens", halves);
  writer.dataset_u32("wide", std::array{4'000'000'000u});
  writer.dataset("none", {0}, DType::u8, nullptr);
  writer.text("recipe", std::string(100'000, 'x') + "\nend \u2713");
  writer.attribute("", "version", std::int64_t{-7});
  writer.attribute("layers/0/weight", "axis", std::string("rows"));
  writer.attribute("/", "floor", 0.1);
  writer.attribute("/", "empty", std::string());
}

std::string message_of(const std::function<void()>& action, ExitCode code) {
  try {
    action();
  } catch (const Error& error) {
    EXPECT_EQ(int(error.code()), int(code)) << error.what();
    return error.what();
  }
  ADD_FAILURE() << "nothing was thrown";
  return "";
}

TEST(Hdf5, what_is_written_is_read_back_exactly) {
  const TemporaryFolder folder;
  const auto path = folder / "a.h5";
  Hdf5Writer writer(path);
  fill(writer);
  writer.commit(Seal::yes);
  verify_seal(path);

  const Hdf5Reader reader(path);
  const auto values = reader.read_f32("layers/0/weight");
  EXPECT_EQ(values, (std::vector<float>{1.5f, -0.f, 0x1p-149f, 3e38f, 5.f, 6.f}));
  EXPECT_TRUE(std::signbit(values[1]));
  EXPECT_EQ(reader.info("layers/0/weight").dims, (std::vector<std::int64_t>{2, 3}));
  EXPECT_EQ(reader.read_f32("b"), (std::vector<float>{1.f, -2.f}));
  EXPECT_EQ(reader.read_u16("tokens"), (std::vector<std::uint16_t>{0x3f80, 0xc000}));
  EXPECT_EQ(reader.read_u32("wide"), (std::vector<std::uint32_t>{4'000'000'000u}));
  EXPECT_EQ(reader.read_u8("none").size(), 0u);
  EXPECT_EQ(reader.read_text("recipe"), std::string(100'000, 'x') + "\nend \u2713");
  EXPECT_EQ(reader.int_attribute("", "version"), -7);
  EXPECT_EQ(reader.real_attribute("/", "floor"), 0.1);
  EXPECT_EQ(reader.text_attribute("layers/0/weight", "axis"), "rows");
  EXPECT_EQ(reader.text_attribute("/", "empty"), "");
  EXPECT_EQ(reader.find_text_attribute("/", "nobody"), std::nullopt);
  std::string types;
  for (const auto& info : reader.datasets()) types += info.name + ":" + info.type + " ";
  EXPECT_EQ(types, "b:bf16 layers/0/weight:f32 none:u8 recipe:text tokens:u16 wide:u32 ");
}

TEST(Hdf5, equal_content_gives_equal_bytes) {
  const TemporaryFolder folder;
  const auto bytes_of = [&](const std::string& name) {
    Hdf5Writer writer(folder / name);
    fill(writer);
    writer.commit(Seal::yes);
    return read_whole_text(folder / name);
  };
  EXPECT_EQ(bytes_of("first.h5"), bytes_of("other name.h5"));
}

TEST(Hdf5, nothing_is_on_the_disk_without_commit) {
  const TemporaryFolder folder;
  {
    Hdf5Writer writer(folder / "a.h5");
    fill(writer);
  }
  EXPECT_TRUE(folder.names().empty());
}

TEST(Hdf5, a_null_dataspace_has_no_numbers) {
  const TemporaryFolder folder;
  const std::string path = (folder / "null.h5").string();
  hdf5::prepare_library();
  const hid_t file = H5Fcreate(path.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT),
              space = H5Screate(H5S_NULL);
  const hid_t set = H5Dcreate2(file, "x", H5T_NATIVE_FLOAT, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
  EXPECT_GE(H5Dclose(set), 0);
  H5Sclose(space), H5Fclose(file);
  const Hdf5Reader reader(path);
  EXPECT_EQ(reader.info("x").dims, std::vector<std::int64_t>{0});
  EXPECT_TRUE(reader.read_f32("x").empty());
}

TEST(Hdf5, a_number_beyond_f32_is_refused_and_not_made_infinite) {
  const TemporaryFolder folder;
  const std::string path = (folder / "wide.h5").string();
  hdf5::prepare_library();
  const hid_t file = H5Fcreate(path.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
  const hsize_t extent = 2;
  const hid_t space = H5Screate_simple(1, &extent, nullptr);
  for (const auto& [name, numbers] :
       {std::pair("fits", std::array{1.5, -HUGE_VAL}), {"beyond", std::array{1.5, -1e39}}}) {
    const hid_t set = H5Dcreate2(file, name, H5T_NATIVE_DOUBLE, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
    EXPECT_GE(H5Dwrite(set, H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, numbers.data()), 0);
    H5Dclose(set);
  }
  H5Sclose(space), H5Fclose(file);
  const Hdf5Reader reader(path);
  EXPECT_EQ(reader.read_f32("fits"), (std::vector<float>{1.5f, -INFINITY}));
  EXPECT_EQ(message_of([&] { reader.read_f32("beyond"); }, ExitCode::data),
            path + ": 'beyond' holds -1e+39 at element 1; want numbers in f32's range");
}

TEST(Hdf5, missing_things_and_wrong_types_are_named) {
  const TemporaryFolder folder;
  const auto path = folder / "a.h5";
  Hdf5Writer writer(path);
  fill(writer);
  writer.commit();
  const Hdf5Reader reader(path);
  const auto at = [&](const std::string& rest) { return path.string() + ": " + rest; };
  EXPECT_EQ(message_of([&] { reader.read_f32("layers/1/weight"); }, ExitCode::data),
            at("has no 'layers/1/weight'"));
  EXPECT_EQ(message_of([&] { reader.read_f32("layers"); }, ExitCode::data),
            at("'layers' is a group, want a dataset"));
  EXPECT_EQ(message_of([&] { reader.read_u16("wide"); }, ExitCode::data),
            at("dataset 'wide' is u32, want u16, bf16"));
  EXPECT_EQ(message_of([&] { reader.read_f32("recipe"); }, ExitCode::data),
            at("dataset 'recipe' is text, want f16, f32, f64, i8, i16, i32, i64, u8, u16, u32, u64"));
  EXPECT_EQ(message_of([&] { reader.text_attribute("", "nobody"); }, ExitCode::data),
            at("'' has no attribute 'nobody'"));
  EXPECT_EQ(message_of([&] { reader.int_attribute("/", "floor"); }, ExitCode::data),
            at("attribute 'floor' of '/' is not one integer"));
  EXPECT_EQ(message_of([&] { Hdf5Reader(folder / "b.h5"); }, ExitCode::data),
            (folder / "b.h5").string() + ": No such file or directory");
  write_atomically(folder / "c.h5", "not HDF5 at all");
  EXPECT_EQ(message_of([&] { Hdf5Reader(folder / "c.h5"); }, ExitCode::data),
            (folder / "c.h5").string() + ": HDF5 cannot open the file: file signature not found");
}

// What docs/data.md and docs/checkpoints.md promise to those who look into our files with HDF5's own tools.
TEST(Hdf5, H5dumpOpensASealedFile) {
  if (std::system("h5dump --version > /dev/null 2>&1") != 0)
    GTEST_SKIP() << "no h5dump here; Debian has it in hdf5-tools";
  const TemporaryFolder folder;
  Hdf5Writer writer(folder / "sealed.h5");
  fill(writer);
  writer.commit(Seal::yes);
  const auto command = "h5dump -d layers/0/weight " + (folder / "sealed.h5").string() + " > " +
                       (folder / "dump.txt").string() + " 2>&1";
  ASSERT_EQ(std::system(command.c_str()), 0);
  const auto bytes = read_whole(folder / "dump.txt");
  const std::string text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  EXPECT_NE(text.find("( 2, 3 )"), std::string::npos) << text;
  EXPECT_NE(text.find("1.5, -0,"), std::string::npos) << text;
}

}  // namespace
}  // namespace mxtape
