#include "program/records/metrics.h"

#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

#include "core/error.h"
#include "core/files/atomic_file.h"
#include "core/files/crc32c.h"
#include "tests/support/few_handles.h"
#include "tests/support/temporary_folder.h"

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

/// A protocol-buffer message, read independently of the writer: the bytes of each length-delimited field and
/// the value of each varint, by number. Fixed-size fields are passed over.
struct Message {
  std::map<std::uint64_t, std::string> bytes;
  std::map<std::uint64_t, std::uint64_t> varints;

  explicit Message(const std::string& text) {
    std::size_t at = 0;
    const auto varint = [&] {
      std::uint64_t value = 0;
      for (int shift = 0;; shift += 7) {
        const auto byte = std::uint8_t(text.at(at++));
        value |= std::uint64_t(byte & 127) << shift;
        if (byte < 128) return value;
      }
    };
    while (at < text.size()) {
      const std::uint64_t tag = varint(), field = tag >> 3;
      switch (tag & 7) {
        case 0:
          varints[field] = varint();
          break;
        case 1:
          at += 8;
          break;
        case 2: {
          const std::size_t size = varint();
          bytes[field] = text.substr(at, size);
          at += size;
          break;
        }
        case 5:
          at += 4;
          break;
        default:
          ADD_FAILURE() << "wire type " << (tag & 7);
          return;
      }
    }
  }
};

/// The texts of an event file with their steps, after TensorFlow's event.proto, summary.proto, tensor.proto.
std::vector<std::pair<std::int64_t, std::string>> texts_of_events(const std::filesystem::path& path) {
  const std::string file = read_text(path);
  std::vector<std::pair<std::int64_t, std::string>> texts;
  for (auto rest = bytes_of(file); !rest.empty();) {
    const TfRecord record = first_record(rest);
    const Message event({record.data.begin(), record.data.end()});
    rest = rest.subspan(record.size);
    if (!event.bytes.contains(5)) continue;
    const Message value(Message(event.bytes.at(5)).bytes.at(1));
    if (!value.bytes.contains(8)) continue;
    EXPECT_EQ(value.bytes.at(1), "recipe");
    EXPECT_EQ(Message(Message(value.bytes.at(9)).bytes.at(1)).bytes.at(1), "text") << "the plugin";
    const Message tensor(value.bytes.at(8));
    EXPECT_EQ(tensor.varints.at(1), 7u) << "DT_STRING";
    EXPECT_EQ(tensor.bytes.at(2), "") << "a scalar";
    texts.emplace_back(event.varints.at(2), tensor.bytes.at(8));
  }
  return texts;
}

class MetricsTest : public testing::Test {
 protected:
  void write(std::int64_t first, std::int64_t last) {
    Metrics metrics(jsonl_, events_, first - 1, recipe_);
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

  std::string recipe_ = "seed = 1\n";
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
  // Five scalars a step, two a validation with a floor, the file's own first record and the recipe.
  std::vector<std::int64_t> want{0, 0};
  for (std::int64_t step = 1; step <= 5; ++step) want.insert(want.end(), step % 2 ? 5 : 7, step);
  EXPECT_EQ(steps_of_events(events_), want);
}

TEST_F(MetricsTest, HoldTheRecipeOnceForTensorBoardAndAgainWhereAResumeChangesIt) {
  using Texts = std::vector<std::pair<std::int64_t, std::string>>;
  const std::string one = "```\nseed = 1\n```\n", two = "```\nseed = 2\n```\n";
  write(1, 3);
  EXPECT_EQ(texts_of_events(events_), (Texts{{0, one}}));
  write(4, 5);
  EXPECT_EQ(texts_of_events(events_), (Texts{{0, one}})) << "the same recipe goes on";
  recipe_ = "seed = 2\n";
  write(5, 6);
  EXPECT_EQ(texts_of_events(events_), (Texts{{0, one}, {4, two}}));
  write(3, 3);
  EXPECT_EQ(texts_of_events(events_), (Texts{{0, one}, {2, two}})) << "the later one was cut off";
}

TEST_F(MetricsTest, AfterACrashDropTheTornEnd) {
  write(1, 3);
  for (const auto& path : {jsonl_, events_})
    std::filesystem::resize_file(path, std::filesystem::file_size(path) - 5);
  write(4, 4);
  EXPECT_EQ(steps(), (std::vector<std::int64_t>{1, 2, 2, 4, 4}));
  steps_of_events(events_);
}

TEST_F(MetricsTest, ABrokenLineInTheMiddleIsSetAsideAndTheRecordsAroundItStay) {
  write(1, 6);
  std::string text = read_text(jsonl_);
  const auto third = text.find("{\"step\":3"), fourth = text.find("{\"step\":4");
  text[third] = '(';
  text[fourth + 2] = 'S';  // a record without a step
  { std::ofstream(jsonl_, std::ios::binary | std::ios::trunc) << text; }
  const std::string broken = text.substr(third, text.find('\n', fourth) + 1 - third);
  {
    const Metrics metrics(jsonl_, events_, 5, recipe_);
    EXPECT_NE(metrics.note().find("metrics.jsonl:4: 2 lines from here on are no records; moved to "),
              std::string::npos)
        << metrics.note();
  }
  EXPECT_EQ(steps(), (std::vector<std::int64_t>{1, 2, 2, 4, 5}))
      << "step 4's validation, and nothing after 5";
  EXPECT_EQ(read_text(folder_.path() / "metrics.broken.txt"), broken);
  const Metrics again(jsonl_, events_, 5, recipe_);
  EXPECT_EQ(again.note(), "");
  EXPECT_EQ(read_text(folder_.path() / "metrics.broken.txt"), broken);
}

/// The doubles of a packed field.
std::vector<double> doubles_of(const std::string& bytes) {
  std::vector<double> numbers(bytes.size() / sizeof(double));
  std::memcpy(numbers.data(), bytes.data(), bytes.size());
  return numbers;
}

TEST_F(MetricsTest, AHistogramHasABucketFromEachPowerOfTwoToTheNext) {
  {
    EventFile events(events_, 0);
    events.histogram("scales", 7, {{-3, 5}, {-1, 2}}, 1.5);
    events.histogram("none", 8, {}, 1.5);
    events.flush();
  }
  EXPECT_EQ(steps_of_events(events_), (std::vector<std::int64_t>{0, 7}));
  const std::string file = read_text(events_);
  const auto first = first_record(bytes_of(file));
  const auto record = first_record(bytes_of(file).subspan(first.size));
  const Message event({record.data.begin(), record.data.end()});
  const Message value(Message(event.bytes.at(5)).bytes.at(1));
  EXPECT_EQ(value.bytes.at(1), "scales");
  const Message histogram(value.bytes.at(5));
  EXPECT_EQ(doubles_of(histogram.bytes.at(6)), (std::vector<double>{0.125, 0.25, 0.5, 1}));  // upper limits
  EXPECT_EQ(doubles_of(histogram.bytes.at(7)), (std::vector<double>{0, 5, 0, 2}));
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

// What is read as empty would be cut to nothing.
TEST_F(MetricsTest, ThatCannotBeReadStayAsTheyAre) {
  write(1, 4);
  const std::string lines = read_text(jsonl_), events = read_text(events_);
  for (const int handles : {0, 1}) {  // too few for the events; enough for them, too few for the lines
    try {
      const test::FewHandles few(handles);
      Metrics metrics(jsonl_, events_, 4, recipe_);
      ADD_FAILURE() << handles;
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), ExitCode::resource) << e.what();
    }
    EXPECT_EQ(read_text(jsonl_), lines) << handles;
    EXPECT_EQ(read_text(events_), events) << handles;
  }
}

TEST_F(MetricsTest, ThatCannotBeWrittenAreAnErrorOfResources) {
  try {
    Metrics metrics(folder_.path() / "no such folder" / "metrics.jsonl", events_, 0, "");
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ExitCode::resource);
  }
}

}  // namespace
}  // namespace mxtape
