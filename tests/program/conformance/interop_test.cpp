#include "program/conformance/interop.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <fstream>

#include "core/error.h"

namespace mxtape::conformance {
namespace {

namespace fs = std::filesystem;
using Status = Outcome::Status;

struct Count {
  int passed = 0, failed = 0, not_applicable = 0;
};
Count run(const fs::path& folder) {
  Count count;
  for (const InteropCase& c : interop_cases(folder)) {
    const Outcome outcome = c.run();
    count.passed += outcome.status == Status::passed;
    count.not_applicable += outcome.status == Status::not_applicable;
    if (outcome.status != Status::failed) continue;
    ++count.failed;
    ADD_FAILURE() << c.name << ": " << outcome.detail;
  }
  return count;
}

/// A copy that a test may break.
class InteropTest : public testing::Test {
 protected:
  void SetUp() override {
    // By test: ctest runs the tests of a fixture side by side.
    folder_ = fs::path(testing::TempDir()) /
              fmt::format("interop_set_{}", testing::UnitTest::GetInstance()->current_test_info()->name());
    fs::remove_all(folder_);
    fs::create_directories(folder_);
    fs::copy(fs::path(MXTAPE_SOURCE) / "tests/interop/tokenizers", folder_ / "tokenizers",
             fs::copy_options::recursive);
  }
  void TearDown() override { fs::remove_all(folder_); }
  int failures() const {
    int failed = 0;
    for (const InteropCase& c : interop_cases(folder_)) failed += c.run().status == Status::failed;
    return failed;
  }
  void replace(const std::string& file, const std::string& from, const std::string& to) const {
    std::ifstream in(folder_ / file);
    std::string text{std::istreambuf_iterator<char>(in), {}};
    const auto at = text.find(from);
    ASSERT_NE(at, text.npos) << file;
    std::ofstream(folder_ / file) << text.replace(at, from.size(), to);
  }
  fs::path folder_;
};

TEST_F(InteropTest, TheOwnSetPasses) {
  const Count count = run(folder_);
  EXPECT_EQ(count.failed, 0);
  EXPECT_GT(count.passed, 600);
}

TEST_F(InteropTest, AnotherIdAnotherVocabularyAndAnotherPositionFail) {
  replace("tokenizers/gpt2-style/ids.json", R"({"ids": [)", R"({"ids": [7)");
  EXPECT_EQ(failures(), 1);
  replace("tokenizers/llama3-style/ids.json", R"("vocabulary": 4)", R"("vocabulary": 5)");
  EXPECT_EQ(failures(), 2);
  replace("tokenizers/not_utf8.json", R"("first_bad_byte": 2)", R"("first_bad_byte": 1)");
  EXPECT_EQ(failures(), 2 + 6) << "one for each tokenizer";
}

TEST_F(InteropTest, ATokenizerThatCannotBeReadIsOneFailure) {
  fs::resize_file(folder_ / "tokenizers/sentencepiece-bpe/tokenizer.model", 100);
  EXPECT_EQ(failures(), 1);
}

TEST_F(InteropTest, ASetThatIsMalformedIsRefusedWithItsFile) {
  std::ofstream(folder_ / "tokenizers/strings.json") << "{";
  EXPECT_THROW(interop_cases(folder_), Error);
}

TEST(SharedInteropSet, EveryCasePassesOrSaysWhyItDoesNotApply) {
  const fs::path folder = fs::path(MXTAPE_SHARED) / "interop";
  if (!fs::exists(folder / "tokenizers"))
    GTEST_SKIP() << "no " << folder << "; tests/interop is the set that is always there";
  EXPECT_EQ(run(folder).failed, 0);
}

}  // namespace
}  // namespace mxtape::conformance
