// mxtape check --devices, and what it is held against.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "tests/program/devices/ranks.h"

namespace mxtape::test {
namespace {

using PlanOfDevices = Ranks;

TEST_F(PlanOfDevices, SaysRoundsMemoryAndBytesAndTheSameAsJson) {
  ASSERT_EQ(run({"check", "shared.toml", "--devices", "3"}), 0) << output_;
  EXPECT_TRUE(says("devices     3 for 4 strands: 2 rounds, 67% busy; evenly: 1 2 4; others: 3 67%"));
  EXPECT_TRUE(says("a device    about "));
  EXPECT_TRUE(says("exchange    a step, the busiest device: "));
  EXPECT_TRUE(says("links       that takes, at rates that are assumed: NVLink of an H100 (300 GB/s) "));
  EXPECT_TRUE(says("ready: mxtape train shared.toml --devices 3"));
  ASSERT_EQ(run({"check", "shared.toml", "--devices", "3", "--json"}), 0) << output_;
  const auto json = nlohmann::json::parse(output_).at("devices");
  EXPECT_EQ(json.at("rounds"), 2);
  EXPECT_EQ(json.at("even_counts"), (std::vector<int>{1, 2, 4}));
  const auto& step = json.at("step");
  const auto sent = [&](const char* what) { return step.at(what).at("sent_bytes").get<std::int64_t>(); };
  EXPECT_EQ(sent("busiest_device"), sent("gradients") + sent("squares") + sent("weights"));
  EXPECT_GT(step.at("sent_bytes_of_all"), sent("busiest_device"));
  const auto& memory = json.at("memory_bytes");
  std::int64_t parts = 0;
  for (const char* part : {"weights", "gradients", "sums_of_strands", "moments", "quantized_weights",
                           "gradients_on_their_way", "activations_or_messages"})
    parts += memory.at(part).get<std::int64_t>();
  EXPECT_EQ(parts, memory.at("needed"));
  const auto& slow = json.at("links").back();
  EXPECT_DOUBLE_EQ(
      slow.at("exchange_seconds").get<double>() * slow.at("assumed_bytes_per_second").get<double>(),
      std::max(sent("busiest_device"), step.at("busiest_device").at("received_bytes").get<std::int64_t>()));
}

// On a login node, or in a build without CUDA.
TEST_F(PlanOfDevices, WantsNoGpuToPlanForEight) {
  const int code = run({"check", "gpt2-124m-cuda-mxfp4", "--data.file=data.h5", "--model.context=64",
                        "--train.strands=8", "--devices", "8", "--model.vocabulary=50304"});
  for (const char* label : {"devices     8 for 8 strands: 1 round, all busy", "\na device    about ",
                            "\nexchange    a step, the busiest device: ", "\nlinks       "})
    EXPECT_TRUE(says(label));
  EXPECT_TRUE(code == 0 || says("mxtape: cuda: "));
}

TEST_F(PlanOfDevices, OneDeviceExchangesNothing) {
  ASSERT_EQ(run({"check", "shared.toml", "--devices", "1"}), 0) << output_;
  EXPECT_TRUE(says("devices     1 for 4 strands: 4 rounds, all busy"));
  EXPECT_FALSE(contains(output_, "exchange    ")) << output_;
  ASSERT_EQ(run({"check", "shared.toml"}), 0) << output_;
  EXPECT_FALSE(contains(output_, "devices     ")) << output_;
}

TEST_F(PlanOfDevices, MoreDevicesThanStrandsAreRefusedAsWhenTheyTrain) {
  EXPECT_EQ(run({"check", "shared.toml", "--devices", "5"}), 2);
  EXPECT_TRUE(says("train.strands = 4: 4 devices can share a step, and there are 5"));
  EXPECT_EQ(run({"check", "shared.toml", "--devices", "0"}), 2);
  EXPECT_EQ(run({"check", "shared.toml", "--devices", "many"}), 2);
}

}  // namespace
}  // namespace mxtape::test
