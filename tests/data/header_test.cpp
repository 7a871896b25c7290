#include "data/safetensors/header.h"

#include <gtest/gtest.h>

#include <array>

#include "core/error.h"

namespace mxtape {
namespace {

/// The message of the refusal; "" if the header is taken.
std::string refusal(const std::string& json, std::uint64_t data_bytes = 8) {
  try {
    (void)parse_safetensors_header(json, data_bytes);
    return "";
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ExitCode::data) << e.what();
    return e.what();
  }
}

const std::string good = R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})";

TEST(SafetensorsHeader, TensorsComeInTheOrderOfTheirBytesWithTypesAndShapes) {
  const auto header = parse_safetensors_header(
      R"({"__metadata__":{"format":"pt"},"b":{"shape":[3,2],"dtype":"BF16","data_offsets":[4,16]},)"
      R"("none":{"dtype":"F64","shape":[0,7],"data_offsets":[4,4]},"a":{"dtype":"F32","shape":[],"data_offsets":[0,4]}})",
      16);
  ASSERT_EQ(header.tensors.size(), 3u);
  EXPECT_EQ(header.tensors[0].name, "a");
  EXPECT_EQ(header.tensors[1].name, "none");
  EXPECT_EQ(header.tensors[2].text(), "BF16 [3, 2]");
  EXPECT_EQ(header.tensors[0].count(), 1u);
  EXPECT_EQ(header.tensors[1].count(), 0u);
  EXPECT_EQ(header.metadata.at("format"), "pt");
}

TEST(SafetensorsHeader, BlanksMayFollowTheObjectAndNothingElse) {
  EXPECT_EQ(refusal(good + "  \n"), "");
  EXPECT_NE(refusal(good + "x"), "");
  EXPECT_NE(refusal(good + std::string(1, '\0')), "");
  EXPECT_NE(refusal(good + std::string("\0 }", 3)), "")
      << "a parser that stops at the zero byte would not see the rest";
  EXPECT_NE(refusal(" " + good), "");
  EXPECT_NE(refusal("\xef\xbb\xbf" + good), "");
  EXPECT_NE(refusal(good + good), "");
}

TEST(SafetensorsHeader, EveryKindOfWrongValueIsRefusedWithTheTensorsName) {
  const auto with = [](const std::string& dtype, const std::string& shape, const std::string& offsets) {
    return "{\"a\":{\"dtype\":" + dtype + ",\"shape\":" + shape + ",\"data_offsets\":" + offsets + "}}";
  };
  ASSERT_EQ(refusal(with("\"F32\"", "[2]", "[0,8]")), "");
  const std::vector<std::array<std::string, 3>> wrong{
      {"\"f32\"", "[2]", "[0,8]"},     {"\"F99\"", "[2]", "[0,8]"},
      {"32", "[2]", "[0,8]"},          {"null", "[2]", "[0,8]"},
      {"[\"F32\"]", "[2]", "[0,8]"},   {"\"F32\"", "2", "[0,8]"},
      {"\"F32\"", "[2.0]", "[0,8]"},   {"\"F32\"", "[2e0]", "[0,8]"},
      {"\"F32\"", "[-2]", "[0,8]"},    {"\"F32\"", "[[2]]", "[0,8]"},
      {"\"F32\"", "[\"2\"]", "[0,8]"}, {"\"F32\"", "{\"x\":2}", "[0,8]"},
      {"\"F32\"", "[2]", "[-0,8]"},    {"\"F32\"", "[2]", "[0,8,8]"},
      {"\"F32\"", "[2]", "[8]"},       {"\"F32\"", "[2]", "[0,8.0]"},
      {"\"F32\"", "[2]", "[0,true]"},  {"\"F32\"", "[2]", "[0,18446744073709551616]"},
      {"\"F32\"", "[2]", "[8,0]"},     {"\"F32\"", "[2]", "[0,9]"},
      {"\"F32\"", "[2]", "[4,8]"},     {"\"F32\"", "[3]", "[0,8]"},
      {"\"F64\"", "[2]", "[0,8]"},     {"\"F32\"", "[0]", "[0,8]"},
      {"\"F4\"", "[3]", "[0,8]"}};
  for (const auto& [dtype, shape, offsets] : wrong) {
    const std::string message = refusal(with(dtype, shape, offsets));
    EXPECT_NE(message, "") << dtype << shape << offsets;
    EXPECT_NE(message.find('a'), std::string::npos);
  }
}

TEST(SafetensorsHeader, ASizeThatIsRightOnlyModulo2To64IsRefused) {
  const auto shape = [](const std::string& extents) {
    return "{\"a\":{\"dtype\":\"F32\",\"shape\":[" + extents + "],\"data_offsets\":[0,8]}}";
  };
  EXPECT_NE(refusal(shape("4294967296,4294967296,2")), "") << "elements";
  EXPECT_NE(refusal(shape("4611686018427387906")), "") << "4 x elements";
}

TEST(SafetensorsHeader, EqualNamesAreRefusedHoweverTheyAreSpelled) {
  const std::string tensor = R"({"dtype":"F32","shape":[1],"data_offsets":)";
  EXPECT_NE(refusal("{\"a\":" + tensor + "[0,4]},\"a\":" + tensor + "[4,8]}}").find("twice"),
            std::string::npos);
  EXPECT_NE(refusal("{\"a\":" + tensor + "[0,4]},\"\\u0061\":" + tensor + "[4,8]}}").find("twice"),
            std::string::npos);
  EXPECT_NE(refusal(R"({"a":{"dtype":"F32","dtype":"F32","shape":[2],"data_offsets":[0,8]}})").find("twice"),
            std::string::npos);
  EXPECT_NE(
      refusal(R"({"__metadata__":{"x":"1","x":"2"},"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})"),
      "");
  EXPECT_EQ(refusal("{\"a\":" + tensor + "[0,4]},\"b\":" + tensor + "[4,8]}}"), "");
}

TEST(SafetensorsHeader, OverlapsHolesAndBytesThatNobodyOwnsAreRefused) {
  const auto two = [](const std::string& a, const std::string& b) {
    const std::string tensor = R"({"dtype":"F32","shape":[1],"data_offsets":)";
    return "{\"a\":" + tensor + a + "},\"b\":" + tensor + b + "}}";
  };
  EXPECT_NE(refusal(two("[0,4]", "[0,4]"), 4), "");
  EXPECT_NE(refusal(two("[0,4]", "[2,6]"), 6), "");
  EXPECT_NE(refusal(two("[0,4]", "[5,9]"), 9), "");
  EXPECT_NE(refusal(two("[0,4]", "[4,8]"), 9), "");
  EXPECT_NE(refusal(two("[1,5]", "[5,9]"), 9), "");
}

TEST(SafetensorsHeader, NestingEndsAtTheThirdLevelWithoutUsingTheStack) {
  std::string deep = "{\"a\":";
  for (int i = 0; i < 1'000'000; ++i) deep += '[';
  EXPECT_NE(refusal(deep + "}"), "");
  EXPECT_NE(refusal(R"({"a":{"b":{"c":1}}})"), "");
  EXPECT_NE(refusal(R"({"__metadata__":{"b":{}}})"), "");
  EXPECT_NE(refusal(R"({"__metadata__":{"b":3}})"), "");
}

TEST(SafetensorsHeader, WhatIsNoTextOfUtf8IsRefusedAndMessagesStayPrintable) {
  const std::string tensor = R"(":{"dtype":"F32","shape":[2],"data_offsets":[0,9]}})";
  EXPECT_NE(refusal("{\"\xff" + tensor), "");
  EXPECT_NE(refusal("{\"\\ud800" + tensor), "");
  const std::string message = refusal("{\"" + std::string(500, 'n') + "\\n\\u001b" + tensor);
  EXPECT_LT(message.size(), 300u);
  EXPECT_EQ(shown_name("a\nb\x1b\xc3\xa9"), "a\\x0ab\\x1b\\xc3\\xa9");
}

TEST(SafetensorsHeader, EveryByteChangedAndEveryTruncationIsTakenOrRefusedAsData) {
  const std::string text =
      R"({"__metadata__":{"f":"pt"},"a":{"dtype":"F16","shape":[2],"data_offsets":[0,4]},"b":{"dtype":"F32","shape":[1,1],"data_offsets":[4,8]}})";
  ASSERT_EQ(refusal(text), "");
  int taken = 0;
  for (std::size_t at = 0; at < text.size(); ++at)
    for (int byte = 0; byte < 256; ++byte) {
      std::string altered = text;
      altered[at] = char(byte);
      taken += refusal(altered).empty();
    }
  EXPECT_GT(taken, int(text.size())) << "each byte itself at least";
  for (std::size_t length = 0; length < text.size(); ++length)
    EXPECT_NE(refusal(text.substr(0, length)), "") << length;
}

}  // namespace
}  // namespace mxtape
