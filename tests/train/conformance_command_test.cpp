#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "core/atomic_file.h"
#include "tests/support/temporary_folder.h"
#include "tests/train/program.h"
#include "train/conformance/sha256.h"

namespace mxtape {
namespace {

using test::contains, test::Result, test::run_program;

class Conformance : public testing::Test {
 protected:
  void SetUp() override {
    if (!std::filesystem::exists(golden_ / "manifest.json")) GTEST_SKIP() << "no golden set at " << golden_;
  }
  const std::filesystem::path golden_ = std::filesystem::path(MXTAPE_SHARED) / "golden";
};

TEST_F(Conformance, EveryCaseOfTheGoldenSetPassesOrSaysWhyItDoesNotApply) {
  const TemporaryFolder folder;
  const Result r = run_program(folder.path(), {"conformance", golden_.string()});
  EXPECT_EQ(r.code, 0) << r.output;
  EXPECT_FALSE(contains(r.output, "FAILED")) << r.output;
  for (const char* suite : {"main", "sr", "linear", "formula"})
    EXPECT_TRUE(contains(r.output, std::string("\n") + suite + " "));
}

TEST_F(Conformance, OneWrongBitInAnExpectedTensorIsFoundAndExitsWithOne) {
  const TemporaryFolder folder;
  auto manifest = nlohmann::json::parse(std::ifstream(golden_ / "manifest.json"));
  auto blob = read_whole(golden_ / "data.bin");
  // One case each of blocks, casts and products keep the test fast.
  auto kept = nlohmann::json::array();
  for (const std::string kind : {"block_quant", "elem_cast", "linear"})
    for (const auto& c : manifest["cases"])
      if (c["kind"] == kind) {
        kept.push_back(c);
        break;
      }
  manifest["cases"] = kept;
  write_atomically(folder / "manifest.json", manifest.dump());
  write_atomically(folder / "data.bin", blob);
  ASSERT_EQ(run_program(folder.path(), {"conformance", "."}).code, 0);
  for (const auto& [index, field] : {std::pair(0, "dq"), {0, "scales"}, {1, "codes"}, {2, "dx"}}) {
    auto altered = blob;
    altered[kept[std::size_t(index)][field][1].get<std::size_t>()] ^= std::byte{1};
    write_atomically(folder / "data.bin", altered);
    const auto* bytes = reinterpret_cast<const char*>(altered.data());
    manifest["blob_sha256"] = conformance::sha256({bytes, altered.size()});
    write_atomically(folder / "manifest.json", manifest.dump());
    const Result r = run_program(folder.path(), {"conformance", "."});
    EXPECT_EQ(r.code, 1) << field << "\n" << r.output;
    EXPECT_TRUE(contains(r.output, "FAILED " + kept[std::size_t(index)]["name"].get<std::string>()))
        << r.output;
  }
}

TEST_F(Conformance, ABlobThatTheManifestDoesNotDescribeIsADataErrorEvenIfNoCaseReadsTheByte) {
  const TemporaryFolder folder;
  std::filesystem::copy(golden_ / "manifest.json", folder / "manifest.json");
  auto blob = read_whole(golden_ / "data.bin");
  blob.back() ^= std::byte{1};
  write_atomically(folder / "data.bin", blob);
  const Result r = run_program(folder.path(), {"conformance", "."});
  EXPECT_EQ(r.code, 3);
  EXPECT_TRUE(contains(r.output, "data.bin has sha256 ")) << r.output;
}

TEST_F(Conformance, ATruncatedBlobOrAnArrayOutsideItIsADataError) {
  const TemporaryFolder folder;
  std::filesystem::copy(golden_ / "manifest.json", folder / "manifest.json");
  auto blob = read_whole(golden_ / "data.bin");
  blob.pop_back();
  write_atomically(folder / "data.bin", blob);
  EXPECT_EQ(run_program(folder.path(), {"conformance", "."}).code, 3);
  EXPECT_EQ(run_program(folder.path(), {"conformance", "absent"}).code, 3);
}

}  // namespace
}  // namespace mxtape
