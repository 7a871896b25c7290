#include "train/metrics.h"

#include <gtest/gtest.h>

#include <sstream>

#include <nlohmann/json.hpp>

#include "core/atomic_file.h"
#include "core/error.h"
#include "tests/support/temporary_folder.h"
#include "train/crc32c.h"

namespace mxtape {
namespace {

std::span<const std::uint8_t> bytes_of(std::string_view text) {
  return {reinterpret_cast<const std::uint8_t*>(text.data()), text.size()};
}

std::string read_text(const std::filesystem::path& path) {
  const auto bytes = read_whole(path);
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

/// The steps of all events; fails if a frame's checksum does not fit.
std::vector<std::int64_t> steps_of_events(const std::filesystem::path& path) {
  const std::string text = read_text(path);
  auto rest = bytes_of(text);
  std::vector<std::int64_t> steps;
  while (!rest.empty()) {
    const TfRecord record = first_record(rest);
    if (record.size == 0) {
      ADD_FAILURE() << "a torn frame or a wrong checksum, " << rest.size() << " bytes before the end";
      break;
    }
    steps.push_back(step_of_event(record.data));
    rest = rest.subspan(record.size);
  }
  return steps;
}

std::vector<nlohmann::json> lines_of(const std::filesystem::path& path) {
  std::vector<nlohmann::json> records;
  std::istringstream in(read_text(path));
  for (std::string line; std::getline(in, line);) records.push_back(nlohmann::json::parse(line));
  return records;
}

class MetricsTest : public testing::Test {
 protected:
  void write(std::int64_t first, std::int64_t last) {
    Metrics metrics(jsonl_, events_, first - 1);
    for (auto step = first; step <= last; ++step) {
      metrics.step({.step = step,
                    .loss = 1.0 / 3,
                    .norm = 0.5,
                    .learning_rate = 1e-3,
                    .milliseconds = 2,
                    .tokens_per_second = 100});
      if (step % 2 == 0) metrics.validation(step, 2.5, 2.0);
    }
    metrics.sync();
  }
  std::vector<std::int64_t> steps() const {
    std::vector<std::int64_t> all;
    for (const auto& record : lines_of(jsonl_)) all.push_back(record.at("step"));
    return all;
  }

  const TemporaryFolder folder_;
  const std::filesystem::path jsonl_ = folder_.path() / "metrics.jsonl", events_ = folder_.path() / "events";
};

TEST(Crc32c, ReproducesTheCheckValueAndAVectorOfRfc3720) {
  EXPECT_EQ(crc32c(bytes_of("123456789")), 0xe3069283u);
  EXPECT_EQ(crc32c(std::vector<std::uint8_t>(32, 0)), 0x8a9136aau);
  EXPECT_EQ(crc32c(std::vector<std::uint8_t>(32, 0xff)), 0x62a8ab43u);
}

TEST_F(MetricsTest, AreOneJsonObjectALineWithEveryBitOfTheLoss) {
  write(1, 2);
  const auto records = lines_of(jsonl_);
  ASSERT_EQ(records.size(), 3u);
  EXPECT_EQ(records[0]["loss"].get<double>(), 1.0 / 3);
  EXPECT_EQ(records[2]["validation_loss"], 2.5);
  EXPECT_EQ(records[2]["floor"], 2.0);
  EXPECT_EQ(records[2]["gap"], 0.5);
}

TEST_F(MetricsTest, AfterAResumeHoldEveryStepOnce) {
  write(1, 6);
  write(4, 5);  // from a checkpoint of step 3
  EXPECT_EQ(steps(), (std::vector<std::int64_t>{1, 2, 2, 3, 4, 4, 5}));
  // Five scalars a step, two a validation with a floor, and the file's own first record.
  std::vector<std::int64_t> want{0};
  for (std::int64_t step = 1; step <= 5; ++step) want.insert(want.end(), step % 2 ? 5 : 7, step);
  EXPECT_EQ(steps_of_events(events_), want);
}

TEST_F(MetricsTest, AfterACrashDropTheTornEnd) {
  write(1, 3);
  for (const auto& path : {jsonl_, events_})
    std::filesystem::resize_file(path, std::filesystem::file_size(path) - 5);
  write(4, 4);
  EXPECT_EQ(steps(), (std::vector<std::int64_t>{1, 2, 2, 4, 4}));
  steps_of_events(events_);
}

TEST_F(MetricsTest, AnAlteredEventIsSeen) {
  write(1, 1);
  std::string text = read_text(events_);
  for (std::size_t at : {std::size_t{2}, std::size_t{9}, text.size() / 2, text.size() - 1}) {
    text[at] ^= 4;
    auto rest = bytes_of(text);
    while (!rest.empty()) {
      const auto record = first_record(rest);
      if (record.size == 0) break;
      rest = rest.subspan(record.size);
    }
    EXPECT_FALSE(rest.empty()) << "byte " << at;
    text[at] ^= 4;
  }
}

TEST_F(MetricsTest, ThatCannotBeWrittenAreAnErrorOfResources) {
  try {
    Metrics metrics(folder_.path() / "no such folder" / "metrics.jsonl", events_, 0);
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ExitCode::resource);
  }
}

}  // namespace
}  // namespace mxtape
