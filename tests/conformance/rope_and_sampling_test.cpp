#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "tests/conformance/interop.h"
#include "tests/support/temporary_folder.h"

namespace mxtape::conformance {
namespace {

using Json = nlohmann::json;
using Status = Outcome::Status;

/// The names of the cases that failed.
std::vector<std::string> failures(const TemporaryFolder& set) {
  std::vector<std::string> names;
  for (const InteropCase& c : interop_cases(set.path()))
    if (c.run().status == Status::failed) names.push_back(c.name);
  return names;
}

/// Probabilities 1/2, 1/4, 1/8, 1/8 of tokens 2, 0, 1, 3.
Json halves() {
  const std::vector<double> probabilities{4.0 / 7, 2.0 / 7, 1.0 / 7};
  return {{"kind", "halves"},
          {"logits", {-1, -2, 0, -2}},
          {"temperature", 1 / std::log(2)},
          {"top_k", 3},
          {"top_p", 1.0},
          {"min_p", 0},
          {"kept", {2, 0, 1}},
          {"probabilities", probabilities}};
}
void write_sampling(const TemporaryFolder& set, const Json& one) {
  std::ofstream(set.path() / "sampling.json") << Json{{"cases", {halves(), one}}};
}

TEST(SamplingSuite, PassesWhatIsRightAndFailsWhatIsNot) {
  const TemporaryFolder set;
  write_sampling(set, halves());
  EXPECT_EQ(interop_cases(set.path()).size(), 2u);
  EXPECT_EQ(failures(set), std::vector<std::string>{});
  for (const auto& [key, value] :
       std::vector<std::pair<const char*, Json>>{{"kept", {2, 1, 0}},  // equally likely ones have an order
                                                 {"top_k", 2},
                                                 {"top_p", 0.8},
                                                 {"min_p", 0.3},
                                                 {"temperature", 1.45},
                                                 {"probabilities", {4.0 / 7, 2.0 / 7, 1.0 / 7 + 1e-12}}}) {
    Json wrong = halves();
    wrong[key] = value;
    write_sampling(set, wrong);
    EXPECT_EQ(failures(set), std::vector<std::string>{"sampling/halves[1]"}) << key;
  }
}

TEST(SamplingSuite, ACaseThatIsMalformedIsRefusedWithItsFile) {
  const TemporaryFolder set;
  Json lacking = halves();
  lacking.erase("top_p");
  write_sampling(set, lacking);
  try {
    interop_cases(set.path());
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ExitCode::data);
    EXPECT_NE(std::string(e.what()).find("sampling.json: case 1"), std::string::npos) << e.what();
  }
}

/// A set with one head of four channels at positions 0 and 3: frequencies 1 and 1/4 of theta 16.
class RopeSuite : public testing::Test {
 protected:
  void write() const {
    Json header{
        {"__metadata__", {{"one", R"({"rope_type": ")" + type_ + R"(", "rope_theta": 16, "head_dim": 4})"}}}};
    std::string data;
    const auto put = [&](const std::string& name, const char* dtype, const std::vector<std::int64_t>& shape,
                         const void* bytes, std::size_t count) {
      header[name] = {
          {"dtype", dtype}, {"shape", shape}, {"data_offsets", {data.size(), data.size() + 4 * count}}};
      data.append(static_cast<const char*>(bytes), 4 * count);
    };
    const auto floats = [&](const std::string& name, const std::vector<std::int64_t>& shape) {
      put(name, "F32", shape, numbers_.at(name).data(), numbers_.at(name).size());
    };
    const std::vector<std::int32_t> positions{0, 3};
    put("positions", "I32", {2}, positions.data(), 2);
    floats("one.inv_freq", {2});
    for (const char* table : {"one.cos", "one.sin"}) floats(table, {2, 2});
    for (const char* heads : {"one.q", "one.rotated", "one.dy", "one.dq"}) floats(heads, {1, 1, 2, 4});
    const std::string text = header.dump();
    const std::uint64_t size = text.size();
    std::ofstream out(set_.path() / "rope.safetensors", std::ios::binary);
    out.write(reinterpret_cast<const char*>(&size), sizeof size) << text << data;
  }
  void SetUp() override {
    const float w[] = {1, 0.25f};
    std::vector<float> cos, sin, turned, back, q{1, 2, 3, 4, 5, 6, 7, 8};
    for (const double t : {0.0, 3.0})
      for (int i = 0; i < 2; ++i) {
        cos.push_back(float(std::cos(t * double(w[i]))));
        sin.push_back(float(std::sin(t * double(w[i]))));
      }
    turned = back = q;
    for (std::size_t t = 0; t < 2; ++t)
      for (std::size_t i = 0; i < 2; ++i) {
        const double c = cos[2 * t + i], s = sin[2 * t + i], x = q[4 * t + i], y = q[4 * t + i + 2];
        turned[4 * t + i] = float(x * c - y * s), turned[4 * t + i + 2] = float(y * c + x * s);
        back[4 * t + i] = float(x * c + y * s), back[4 * t + i + 2] = float(y * c - x * s);
      }
    numbers_ = {{"one.inv_freq", {1, 0.25f}}, {"one.cos", cos}, {"one.sin", sin}, {"one.q", q},
                {"one.rotated", turned},      {"one.dy", q},    {"one.dq", back}};
  }
  const TemporaryFolder set_;
  std::map<std::string, std::vector<float>> numbers_;
  std::string type_ = "default";
};

TEST_F(RopeSuite, PassesWhatIsRight) {
  write();
  EXPECT_EQ(interop_cases(set_.path()).size(), 3u);
  EXPECT_EQ(failures(set_), std::vector<std::string>{});
}

TEST_F(RopeSuite, FailsTheComparisonThatANumberBelongsTo) {
  for (const auto& [name, cases] :
       std::map<std::string, std::vector<std::string>>{{"one.inv_freq", {"rope/one/frequencies"}},
                                                       {"one.cos", {"rope/one/angles", "rope/one/turns"}},
                                                       {"one.sin", {"rope/one/angles", "rope/one/turns"}},
                                                       {"one.rotated", {"rope/one/turns"}},
                                                       {"one.dq", {"rope/one/turns"}}}) {
    const auto right = numbers_;
    for (float& x : numbers_.at(name)) x *= 1 + 0x1p-20f;
    write();
    EXPECT_EQ(failures(set_), cases) << name;
    numbers_ = right;
  }
}

TEST_F(RopeSuite, AScalingThatIsNotComputedDoesNotApply) {
  type_ = "yarn";
  write();
  for (const InteropCase& c : interop_cases(set_.path())) {
    const Outcome outcome = c.run();
    EXPECT_EQ(outcome.status, Status::not_applicable);
    EXPECT_EQ(outcome.detail, "mxtape does not compute rope_type yarn");
  }
}

}  // namespace
}  // namespace mxtape::conformance
