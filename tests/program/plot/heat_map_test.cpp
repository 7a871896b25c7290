#include "program/plot/heat_map.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <fstream>

#include "core/error.h"
#include "core/files/atomic_file.h"
#include "tests/program/program_fixture.h"

namespace mxtape::test {
namespace {

class HeatMapTest : public testing::Test {
 protected:
  /// Two layers, two slots and three steps; the second layer's wgrad.dy is not measured.
  void write(const std::string& more = "") const {
    std::filesystem::create_directories(run_);
    std::ofstream out(run_ / "telemetry.jsonl");
    for (const int step : {100, 200, 300})
      for (const int layer : {0, 1})
        for (const std::string slot : {"fprop.x", "wgrad.dy"}) {
          if (layer == 1 && slot == "wgrad.dy") continue;
          const auto record = [&](const char* format, bool in_use, double value) {
            const nlohmann::ordered_json json{{"step", step},
                                              {"kind", "operand"},
                                              {"layer", fmt::format("blocks.{}.mlp.up", layer)},
                                              {"slot", slot},
                                              {"format", format},
                                              {"in_use", in_use},
                                              {"relative_rmse", value},
                                              {"sqnr_db", nullptr},
                                              {"spread_over", {{"2", 0.5}, {"10", value / 2}}}};
            out << json.dump() << "\n";
          };
          record("mxfp4", true, 0.001 * step + layer);
          record("mxfp8", false, 0.25);
        }
    out << more;
  }
  std::string refusal(const std::string& measure, const std::string& format = "") const {
    try {
      heat_map(read_telemetry(run_), measure, format);
    } catch (const Error& e) {
      return e.what();
    }
    return "";
  }

  const TemporaryFolder folder_;
  const std::filesystem::path run_ = folder_ / "mine";
};

TEST_F(HeatMapTest, HasAPanelForEachSlotWithLayersByStepsOfTheFormatInUse) {
  write();
  const HeatMap map = heat_map(read_telemetry(run_), "relative_rmse", "");
  EXPECT_EQ(map.run, "mine");
  EXPECT_EQ(map.layers, (std::vector<std::string>{"blocks.0.mlp.up", "blocks.1.mlp.up"}));
  EXPECT_EQ(map.steps, (std::vector<std::int64_t>{100, 200, 300}));
  ASSERT_EQ(map.panels.size(), 2u);
  EXPECT_EQ(map.panels[0].slot, "fprop.x");
  EXPECT_EQ(map.panels[0].values[1][2], 0.3 + 1);
  EXPECT_EQ(map.panels[1].values[0][1], 0.2);
  EXPECT_TRUE(std::isnan(map.panels[1].values[1][0])) << "not measured";
  EXPECT_EQ(heat_map(read_telemetry(run_), "relative_rmse", "mxfp8").panels[0].values[0][0], 0.25);
  EXPECT_EQ(heat_map(read_telemetry(run_), "spread_over_10", "").panels[0].values[0][0], 0.05);
  EXPECT_TRUE(std::isnan(heat_map(read_telemetry(run_), "sqnr_db", "").panels[0].values[0][0]));
}

TEST_F(HeatMapTest, TheTableHasTheSameDecimalsAllOverAndNoLayerWithoutRecords) {
  write();
  EXPECT_EQ(heat_table(heat_map(read_telemetry(run_), "relative_rmse", ""), 80),
            "relative_rmse of fprop.x\n"
            "layer              100    200    300\n"
            "blocks.0.mlp.up  0.100  0.200  0.300\n"
            "blocks.1.mlp.up  1.100  1.200  1.300\n"
            "\n"
            "relative_rmse of wgrad.dy\n"
            "layer              100    200    300\n"
            "blocks.0.mlp.up  0.100  0.200  0.300\n"
            "\n");
}

TEST_F(HeatMapTest, TheTableShowsEvenlySpacedStepsUpToTheLastThatFit) {
  HeatMap map{"mine", "bias", "", {}, {"head"}, {}, {}};
  for (int step = 1; step <= 10; ++step) map.steps.push_back(20 * step);
  map.panels.push_back({"fprop.x", {std::vector<double>(10, -0.125)}, {std::vector<bool>(10, true)}});
  const auto head_at = [&](std::size_t width) {
    const std::string table = heat_table(map, width), from = table.substr(table.find("layer"));
    return from.substr(0, from.find('\n'));
  };
  EXPECT_EQ(head_at(80), "layer       40       80      120      160      200");
  EXPECT_EQ(head_at(40), "layer       40      120      200") << "every fourth";
  EXPECT_EQ(head_at(1), "layer      200");
}

TEST_F(HeatMapTest, LayersThatAreNotRoundedStayWhiteInEveryMeasure) {
  write();
  std::ofstream out(run_ / "telemetry.jsonl", std::ios::app);
  const auto record = [&](const char* kind, const char* layer, const char* slot, const char* format,
                          double rmse) {
    nlohmann::ordered_json json{{"step", 300}, {"kind", kind}, {"layer", layer}, {"slot", slot}};
    if (*format) json["format"] = format, json["in_use"] = true, json["relative_rmse"] = rmse;
    json["bias"] = 0.25;
    out << json.dump() << "\n";
  };
  record("operand", "head", "fprop.x", "bf16", 0.0017);
  record("operand", "blocks.2.mlp.up", "fprop.x", "mxfp4", 0);
  record("operand", "blocks.0.mlp.up", "fprop.x", "mxfp4", 0.3);
  record("gradient", "head", "wgrad.dw", "", 0);
  record("gradient", "blocks.0.mlp.up", "wgrad.dw", "", 0);
  out.close();
  const TelemetryLog log = read_telemetry(run_);
  for (const char* measure : {"relative_rmse", "bias"}) {
    const HeatMap map = heat_map(log, measure, "");
    EXPECT_EQ(map.formats, std::set<std::string>{"mxfp4"});
    for (const auto& panel : map.panels)
      for (std::size_t layer = 0; layer < map.layers.size(); ++layer) {
        const bool white = map.layers[layer] == "head" || map.layers[layer] == "blocks.2.mlp.up";
        const double value = panel.values[layer].back();
        if (white || std::isnan(value))
          EXPECT_TRUE(std::isnan(panel.shown(layer, map.steps.size() - 1))) << measure << map.layers[layer];
        else
          EXPECT_EQ(panel.shown(layer, map.steps.size() - 1), value) << measure << map.layers[layer];
      }
    EXPECT_EQ(heat_table(map, 80).find("head"), std::string::npos);
    EXPECT_EQ(heat_script(map, "svg", "out", "").find("0.0017"), std::string::npos)
        << "it stretches no scale";
  }
}

TEST_F(HeatMapTest, WhatHasTwoSignsHasZeroInTheMiddleAndTheHeadingHasFormatAndUnit) {
  write();
  HeatMap map = heat_map(read_telemetry(run_), "relative_rmse", "");
  std::string script = heat_script(map, "svg", "out", "");
  EXPECT_NE(script.find("set cbrange [0.1:1.3]"), std::string::npos) << script;
  EXPECT_NE(script.find("\"mine: relative RMSE [rms of the error over that of the numbers]\""),
            std::string::npos);
  EXPECT_NE(script.find("\"in mxfp4\""), std::string::npos);
  const auto steps = script.find("optimizer steps");
  EXPECT_EQ(script.find("optimizer steps", steps + 1), std::string::npos) << "said once";
  map.measure = "bias";
  EXPECT_NE(heat_script(map, "svg", "out", "").find("set cbrange [-1.3:1.3]"), std::string::npos);
  map.measure = "cosine";
  script = heat_script(map, "svg", "out", "");
  EXPECT_NE(script.find("set cbrange [-0.9:0.9]"), std::string::npos) << script;
  EXPECT_NE(script.find("cosine - 1"), std::string::npos);
}

TEST_F(HeatMapTest, WhatNoRecordHasIsRefusedWithWhatThereIs) {
  write();
  EXPECT_NE(refusal("relative_rsme").find("did you mean 'relative_rmse'?"), std::string::npos);
  EXPECT_NE(refusal("oscillation").find("--telemetry oscillation: no record in "), std::string::npos);
  EXPECT_NE(refusal("relative_rmse", "nvfp4").find("telemetry.jsonl has 'mxfp8'"), std::string::npos);
  EXPECT_EQ(measures_in(read_telemetry(run_), ""),
            (std::vector<std::string>{"relative_rmse", "sqnr_db", "spread_over_2", "spread_over_10"}));
}

TEST_F(HeatMapTest, ATornLastLineIsLeftOutAndAnAlteredOneIsRefusedWithItsNumber) {
  write(R"({"step":400,"kind":"oper)");
  EXPECT_EQ(read_telemetry(run_).records.size(), 18u);
  write("nonsense\n{\"step\":400,\"layer\":\"a\",\"slot\":\"b\"}\n");
  try {
    read_telemetry(run_);
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ExitCode::data);
    EXPECT_NE(std::string(e.what()).find("telemetry.jsonl:19: not a record"), std::string::npos) << e.what();
  }
}

using HeatMapProgramTest = ProgramTest;

TEST_F(HeatMapProgramTest, ARunIsDrawnAndAnUnmeasuredOneIsRefused) {
  ASSERT_EQ(run({"train", "tiny.toml", "--telemetry.every=2"}), 0) << output_;
  const bool drawn = std::system("command -v gnuplot >/dev/null") == 0;
  EXPECT_EQ(run({"plot", "runs/tiny", "--telemetry", "relative_rmse", "--telemetry", "oscillation", "--out",
                 "heat"}),
            drawn ? 0 : 6);
  EXPECT_TRUE(says("relative_rmse of wgrad.dy\nlayer"));
  EXPECT_TRUE(says("oscillation of fprop.w"));
  if (drawn)
    for (const char* measure : {"relative_rmse", "oscillation"}) {
      const std::string svg = read_whole_text(folder_ / fmt::format("heat-{}.svg", measure));
      EXPECT_NE(svg.find("blocks.0.attn.qkv"), std::string::npos);
      EXPECT_TRUE(std::filesystem::exists(folder_ / fmt::format("heat-{}.png", measure)));
    }
  ASSERT_EQ(run({"train", "tiny.toml", "--name=plain"}), 0) << output_;
  EXPECT_EQ(run({"plot", "runs/plain", "--telemetry", "all"}), 3);
  EXPECT_TRUE(says("a run writes it where its recipe sets telemetry.every"));
  EXPECT_EQ(run({"plot", "runs/plain", "runs/tiny", "--telemetry", "all"}), 2);
  EXPECT_EQ(run({"plot", "runs/tiny", "--format", "mxfp4"}), 2);
  for (const auto& [first, second] : {std::pair("all", "oscillation"), std::pair("oscillation", "all")}) {
    EXPECT_EQ(run({"plot", "runs/tiny", "--telemetry", first, "--telemetry", second}), 2);
    EXPECT_TRUE(says("--telemetry all is each measure that there is; want it alone"));
  }
  EXPECT_EQ(run({"plot", "runs/tiny", "--telemetry", "all", "--format", "mxfp8"}), 2);
  EXPECT_TRUE(says("no what-if formats"));
  ASSERT_EQ(
      run({"train", "tiny.toml", "--telemetry.every=2", "--telemetry.formats=[\"mxfp8\"]", "--name=if"}), 0)
      << output_;
  EXPECT_EQ(run({"plot", "runs/if", "--telemetry", "all", "--format", "mxfp8", "--out", "if"}),
            drawn ? 0 : 6);
  EXPECT_TRUE(says("relative_rmse of fprop.x in mxfp8\nlayer"));
  EXPECT_FALSE(says("oscillation of")) << "of what is in use alone";
}

}  // namespace
}  // namespace mxtape::test
