#include "tests/conformance/interop.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
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

/// A copy of the own set's tokenizers that a test may break.
class InteropTest : public testing::Test {
 protected:
  explicit InteropTest(std::vector<std::string> parts = {"tokenizers"}) : parts_(std::move(parts)) {}
  void SetUp() override {
    // By test: ctest runs the tests of a fixture side by side.
    folder_ = fs::path(testing::TempDir()) /
              fmt::format("interop_set_{}", testing::UnitTest::GetInstance()->current_test_info()->name());
    fs::remove_all(folder_);
    fs::create_directories(folder_);
    for (const std::string& part : parts_)
      fs::copy(fs::path(MXTAPE_SOURCE) / "tests/interop" / part, folder_ / part, fs::copy_options::recursive);
  }
  void TearDown() override { fs::remove_all(folder_); }
  std::vector<std::string> failed_cases() const {
    std::vector<std::string> failed;
    for (const InteropCase& c : interop_cases(folder_))
      if (c.run().status == Status::failed) failed.push_back(c.name);
    return failed;
  }
  int failures() const { return int(failed_cases().size()); }
  void replace(const std::string& file, const std::string& from, const std::string& to) const {
    std::ifstream in(folder_ / file);
    std::string text{std::istreambuf_iterator<char>(in), {}};
    const auto at = text.find(from);
    ASSERT_NE(at, text.npos) << file;
    std::ofstream(folder_ / file) << text.replace(at, from.size(), to);
  }
  fs::path folder_;

 private:
  std::vector<std::string> parts_;
};

/// The same of its models, which transformers computed.
class InteropModelsTest : public InteropTest {
 protected:
  InteropModelsTest() : InteropTest({"models", "finetune.safetensors"}) {}
};

TEST_F(InteropModelsTest, TheOwnModelsAndTheirFinetuningPass) {
  const Count count = run(folder_);
  EXPECT_EQ(count.failed, 0);
  EXPECT_EQ(count.not_applicable, 0);
  EXPECT_EQ(count.passed, 7 * 5 + 2) << "logits, loss, gradients, greedy texts, round trip; two finetuned";
}

TEST_F(InteropModelsTest, AnotherThetaAnotherEpsAndAnotherHeadFail) {
  const auto fails = [&](const std::string& name) {
    const auto failed = failed_cases();
    return std::find(failed.begin(), failed.end(), name) != failed.end();
  };
  replace("models/llama3-gqa/config.json", R"("rope_theta": 10000.0)", R"("rope_theta": 20000.0)");
  EXPECT_TRUE(fails("models/llama3-gqa/logits"));
  EXPECT_TRUE(fails("models/llama3-gqa/gradients"));
  EXPECT_TRUE(fails("finetune/llama3-gqa"));
  replace("models/gpt2-untied-erf/config.json", R"("layer_norm_epsilon": 0.001)",
          R"("layer_norm_epsilon": 0.00101)");
  EXPECT_TRUE(fails("models/gpt2-untied-erf/logits"));
  replace("models/mistral/config.json", R"("num_key_value_heads": 2)", R"("num_key_value_heads": 4)");
  EXPECT_TRUE(fails("models/mistral/logits")) << "refused";
  EXPECT_FALSE(fails("models/gpt2-tied/logits"));
}

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
