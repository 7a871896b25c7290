#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <sstream>

#include "core/files/atomic_file.h"
#include "tests/conformance/sha256.h"
#include "tests/program/program.h"
#include "tests/support/temporary_folder.h"

namespace mxtape {
namespace {

using test::contains, test::Result;

Result compare(const TemporaryFolder& folder, const std::vector<std::string>& words) {
  return test::run_program(folder.path(), words, MXTAPE_CONFORMANCE);
}

const std::filesystem::path golden = std::filesystem::path(MXTAPE_SOURCE) / "tests/golden";
/// A larger set than the repository's, where there is one.
const std::filesystem::path more_golden = std::filesystem::path(MXTAPE_SHARED) / "golden";

void set_cases(nlohmann::json& manifest, nlohmann::json cases) {
  manifest["case_count"] = cases.size();
  manifest["cases"] = std::move(cases);
}

/// Runs a set and holds what is printed to what its manifest has.
void expect_that_every_case_passes_or_does_not_apply(const std::filesystem::path& set) {
  const auto manifest = nlohmann::json::parse(std::ifstream(set / "manifest.json"));
  const TemporaryFolder folder;
  const Result r = compare(folder, {set.string()});
  EXPECT_EQ(r.code, 0) << r.output;
  EXPECT_FALSE(contains(r.output, "FAILED")) << r.output;
  EXPECT_TRUE(contains(r.output, fmt::format("{} cases of set ", manifest["cases"].size()))) << r.output;
  std::istringstream total(r.output.substr(r.output.find("\ntotal ") + 7));
  std::size_t passed = 0, failed = 0, not_applicable = 0;
  total >> passed >> failed >> not_applicable;
  EXPECT_EQ(failed, 0u);
  EXPECT_GT(passed, 2 * not_applicable);
  EXPECT_EQ(passed + not_applicable, manifest["cases"].size()) << r.output;
  for (const auto& c : manifest["cases"]) {
    const std::string name = c["name"];
    EXPECT_TRUE(contains(r.output, fmt::format("\n{} ", name.substr(0, name.find('/'))))) << name;
  }
}

TEST(Conformance, EveryCaseOfTheGoldenSetPassesOrSaysWhyItDoesNotApply) {
  expect_that_every_case_passes_or_does_not_apply(golden);
}

TEST(Conformance, EveryCaseOfALargerGoldenSetPassesOrSaysWhyItDoesNotApply) {
  if (!std::filesystem::exists(more_golden / "manifest.json"))
    GTEST_SKIP() << "no golden set at " << more_golden;
  expect_that_every_case_passes_or_does_not_apply(more_golden);
}

TEST(Conformance, OneWrongBitInAnExpectedTensorIsFoundAndExitsWithOne) {
  const TemporaryFolder folder;
  auto manifest = nlohmann::json::parse(std::ifstream(golden / "manifest.json"));
  auto blob = read_whole(golden / "data.bin");
  // One case each of blocks, casts and products keep the test fast.
  auto kept = nlohmann::json::array();
  for (const std::string kind : {"block_quant", "elem_cast", "linear"})
    for (const auto& c : manifest["cases"])
      if (c["kind"] == kind) {
        kept.push_back(c);
        break;
      }
  set_cases(manifest, kept);
  write_atomically(folder / "manifest.json", manifest.dump());
  write_atomically(folder / "data.bin", blob);
  ASSERT_EQ(compare(folder, {"."}).code, 0);
  for (const auto& [index, field] : {std::pair(0, "dq"), {0, "scales"}, {1, "codes"}, {2, "dx"}}) {
    auto altered = blob;
    altered[kept[std::size_t(index)][field][1].get<std::size_t>()] ^= std::byte{1};
    write_atomically(folder / "data.bin", altered);
    const auto* bytes = reinterpret_cast<const char*>(altered.data());
    manifest["blob_sha256"] = conformance::sha256({bytes, altered.size()});
    write_atomically(folder / "manifest.json", manifest.dump());
    const Result r = compare(folder, {"."});
    EXPECT_EQ(r.code, 1) << field << "\n" << r.output;
    EXPECT_TRUE(contains(r.output, "FAILED " + kept[std::size_t(index)]["name"].get<std::string>()))
        << r.output;
  }
}

TEST(Conformance, ABlobThatTheManifestDoesNotDescribeIsADataErrorEvenIfNoCaseReadsTheByte) {
  const TemporaryFolder folder;
  std::filesystem::copy(golden / "manifest.json", folder / "manifest.json");
  auto blob = read_whole(golden / "data.bin");
  blob.back() ^= std::byte{1};
  write_atomically(folder / "data.bin", blob);
  const Result r = compare(folder, {"."});
  EXPECT_EQ(r.code, 3);
  EXPECT_TRUE(contains(r.output, "data.bin has sha256 ")) << r.output;
}

TEST(Conformance, ATruncatedBlobOrAMissingFolderIsADataError) {
  const TemporaryFolder folder;
  std::filesystem::copy(golden / "manifest.json", folder / "manifest.json");
  auto blob = read_whole(golden / "data.bin");
  blob.pop_back();
  write_atomically(folder / "data.bin", blob);
  EXPECT_EQ(compare(folder, {"."}).code, 3);
  EXPECT_EQ(compare(folder, {"absent"}).code, 3);
}

TEST(Conformance, AManifestWithoutCasesIsADataErrorNotAPass) {
  const TemporaryFolder folder;
  auto manifest = nlohmann::json::parse(std::ifstream(golden / "manifest.json"));
  set_cases(manifest, nlohmann::json::array());
  write_atomically(folder / "manifest.json", manifest.dump());
  std::filesystem::copy(golden / "data.bin", folder / "data.bin");
  const Result r = compare(folder, {"."});
  EXPECT_EQ(r.code, 3);
  EXPECT_TRUE(contains(r.output, "manifest.json has no cases")) << r.output;
}

TEST(Conformance, ASetThatWasCutIsADataErrorNotAPass) {
  const TemporaryFolder folder;
  auto manifest = nlohmann::json::parse(std::ifstream(golden / "manifest.json"));
  manifest["cases"].erase(manifest["cases"].size() - 1);
  write_atomically(folder / "manifest.json", manifest.dump());
  std::filesystem::copy(golden / "data.bin", folder / "data.bin");
  const Result r = compare(folder, {"."});
  EXPECT_EQ(r.code, 3);
  EXPECT_TRUE(contains(r.output, "manifest.json has 642 cases, its case_count says 643")) << r.output;
}

TEST(Conformance, CasesWithoutNumbersAreADataErrorNotAPass) {
  const TemporaryFolder folder;
  auto manifest = nlohmann::json::parse(std::ifstream(golden / "manifest.json"));
  for (auto& c : manifest["cases"])
    for (auto& [key, value] : c.items()) {
      if (value.is_array() && value.size() == 3 && value[0].is_string()) value[2] = 0;
      if (key == "shape") value = {0};
    }
  write_atomically(folder / "manifest.json", manifest.dump());
  std::filesystem::copy(golden / "data.bin", folder / "data.bin");
  const Result r = compare(folder, {"."});
  EXPECT_EQ(r.code, 3);
  EXPECT_TRUE(contains(r.output, "has no values; want at least one to compare") ||
              contains(r.output, " has 0 values, want "))
      << r.output;
}

TEST(Conformance, ASetOfWhichNoCaseAppliesIsADataErrorNotAPass) {
  const TemporaryFolder folder;
  auto manifest = nlohmann::json::parse(std::ifstream(golden / "manifest.json"));
  auto kept = nlohmann::json::array();
  for (const auto& c : manifest["cases"])
    if (c["name"].get<std::string>().starts_with("quirk/") && c["peer"] == "microxcaling-py")
      kept.push_back(c);
  ASSERT_FALSE(kept.empty());
  set_cases(manifest, kept);
  write_atomically(folder / "manifest.json", manifest.dump());
  std::filesystem::copy(golden / "data.bin", folder / "data.bin");
  const Result r = compare(folder, {"."});
  EXPECT_EQ(r.code, 3);
  EXPECT_TRUE(contains(r.output, "nothing was compared")) << r.output;
}

TEST(Conformance, WithoutASetTheMessageSaysWhereSetsComeFrom) {
  const TemporaryFolder folder;
  for (const auto& [arguments, code] :
       {std::pair(std::vector<std::string>{}, 2), {{"."}, 3}, {{"absent"}, 3}}) {
    const Result r = compare(folder, arguments);
    EXPECT_EQ(r.code, code);
    EXPECT_TRUE(contains(r.output, "tests/golden")) << r.output;
    EXPECT_TRUE(contains(r.output, "docs/conformance.md")) << r.output;
  }
}

TEST(Conformance, AnArrayOfAnotherLengthThanItsCaseNeedsIsADataErrorThatNamesBoth) {
  const TemporaryFolder folder;
  auto manifest = nlohmann::json::parse(std::ifstream(golden / "manifest.json"));
  std::filesystem::copy(golden / "data.bin", folder / "data.bin");
  const auto cases = manifest["cases"];
  int altered = 0;
  for (const auto& [kind, field] : {std::pair("block_quant", "codes"),
                                    {"block_quant", "scales"},
                                    {"block_quant", "dq"},
                                    {"elem_cast", "codes"},
                                    {"decode_table", "dq"},
                                    {"deepml_mxfp4", "scale_exp"},
                                    {"linear", "b"},
                                    {"linear", "dx"},
                                    {"bmm", "out"}})
    for (auto c : cases)
      if (c["kind"] == kind && c.contains(field) && !c.contains("tags")) {
        c[field][2] = c[field][2].get<int>() - 1;
        set_cases(manifest, {c});
        write_atomically(folder / "manifest.json", manifest.dump());
        const Result r = compare(folder, {"."});
        EXPECT_EQ(r.code, 3) << r.output;
        EXPECT_TRUE(contains(r.output, fmt::format("{}: {} has ", c["name"].get<std::string>(), field)))
            << r.output;
        ++altered;
        break;
      }
  EXPECT_EQ(altered, 9);
}

TEST(Conformance, AnArrayOutsideTheBlobIsADataErrorEvenIfItsEndOverflows) {
  const TemporaryFolder folder;
  auto manifest = nlohmann::json::parse(std::ifstream(golden / "manifest.json"));
  std::filesystem::copy(golden / "data.bin", folder / "data.bin");
  auto c = manifest["cases"][0];
  for (const std::int64_t count : {std::int64_t{1} << 24, std::int64_t{1} << 62, std::int64_t{-1}}) {
    c["dq"][2] = count;
    set_cases(manifest, {c});
    write_atomically(folder / "manifest.json", manifest.dump());
    const Result r = compare(folder, {"."});
    EXPECT_EQ(r.code, 3) << count;
    EXPECT_TRUE(contains(r.output, "dq lies outside the blob")) << r.output;
  }
}

TEST(Conformance, APipeAFolderOrADeviceInTheManifestsPlaceIsADataError) {
  const TemporaryFolder folder;
  const auto file = folder / "manifest.json";
  const std::function<void()> makers[] = {[&] { ASSERT_EQ(::mkfifo(file.c_str(), 0600), 0); },
                                          [&] { std::filesystem::create_directory(file); },
                                          [&] { std::filesystem::create_symlink("/dev/zero", file); }};
  for (const auto& make : makers) {
    make();
    const Result r = compare(folder, {"."});
    EXPECT_EQ(r.code, 3) << r.output;
    EXPECT_TRUE(contains(r.output, "manifest.json")) << r.output;
    std::filesystem::remove(file);
  }
}

TEST(Conformance, WordsItDoesNotKnowAreUsageErrors) {
  const TemporaryFolder folder;
  for (const auto& [words, says] :
       {std::pair(std::vector<std::string>{".", "--device", "tpu"}, "no device 'tpu'; this build has: cpu"),
        {{".", "other"}, "other"},
        {{"--devise", "cpu"}, "--devise"}}) {
    const Result r = compare(folder, words);
    EXPECT_EQ(r.code, 2) << r.output;
    EXPECT_TRUE(contains(r.output, says)) << r.output;
  }
}

TEST(Conformance, AFullDiskUnderItsOutputIsNotAPass) {
  const TemporaryFolder folder;
  const std::string line = std::string(MXTAPE_CONFORMANCE) + " " + golden.string() + " > /dev/full";
  EXPECT_EQ(test::run_program(folder.path(), {"-c", line}, "/bin/sh").code, 6);
}

TEST(Conformance, AFileSizeLimitIsAnErrorThatIsTold) {
  const TemporaryFolder folder;
  write_atomically(folder / "full", std::string(1024, ' '));
  const std::string line =
      "ulimit -f 1; exec " + std::string(MXTAPE_CONFORMANCE) + " " + golden.string() + " >> full";
  const Result r = test::run_program(folder.path(), {"-c", line}, "/bin/sh");
  EXPECT_EQ(r.code, 6) << "not the signal's";
  EXPECT_TRUE(contains(r.output, "standard output: cannot be written")) << r.output;
}

}  // namespace
}  // namespace mxtape
