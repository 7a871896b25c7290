#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "core/files/atomic_file.h"
#include "core/normal.h"
#include "data/npy.h"
#include "data/safetensors/safetensors_writer.h"
#include "formats/codec/mx_tensor.h"
#include "tests/program/program.h"
#include "tests/support/temporary_folder.h"

namespace mxtape {
namespace {

using test::contains, test::Result, test::run_program;

/// A sample tensor [20, 50] in folder/x.npy.
std::vector<float> write_sample(const TemporaryFolder& folder) {
  std::vector<float> x;
  for (std::uint64_t i = 0; i < 500; ++i) {
    const NormalPair pair = normal_pair({1, Purpose::sampling, 0, 0, 0}, i);
    x.insert(x.end(), {pair.first, pair.second});
  }
  write_npy(folder / "x.npy", std::vector<std::int64_t>{20, 50}, x);
  return x;
}

TEST(FormatsCommand, NamesEveryElementAndPresetAndTellsRangesAndBits) {
  const TemporaryFolder folder;
  const Result r = run_program(folder.path(), {"formats"});
  EXPECT_EQ(r.code, 0);
  for (const NamedFormat& row : element_formats)
    EXPECT_TRUE(contains(r.output, "\n  " + std::string(row.name) + " "));
  for (const Preset& preset : presets)
    EXPECT_TRUE(contains(r.output, "\n  " + std::string(preset.name) + " "));
  for (const char* text :
       {"57344", "448", " 8.25        264         74.2%    48.4%", " 4.25        136         86.7%    73.4%"})
    EXPECT_TRUE(contains(r.output, text)) << text;
}

TEST(FormatsCommand, OneFormatIsShownWithAllItsNumbers) {
  const TemporaryFolder folder;
  const auto shown = [&](const char* format) {
    return run_program(folder.path(), {"formats", format}).output;
  };
  const std::string e2m2 = shown("e2m2 block=16 scale=e8m0");
  for (const char* text : {"5 bits", "5.5 an element, 88 a block; saves 82.8% of f32, 65.6% of bf16",
                           "largest      7\n", "smallest     0.25, normal 1\n",
                           "31: 0, and with either sign 0.25 0.5 0.75 1 1.25 1.5 1.75 2 2.5 3 3.5 4 5 6 7\n"})
    EXPECT_TRUE(contains(e2m2, text)) << text << "\n" << e2m2;
  EXPECT_TRUE(contains(shown("int4 range=full"), "16: -2 -1.75 -1.5")) << "no mirror image";
  EXPECT_TRUE(contains(shown("bf16"), "more than are listed"));
  EXPECT_TRUE(contains(shown("mxfp4 scale=ue5m3"), "scale        ue5m3 + f32\n"));
  EXPECT_TRUE(contains(shown("nvfp4 outer=none"), "scale        e4m3\n"));
  EXPECT_EQ(run_program(folder.path(), {"formats", "e2m9x"}).code, int(ExitCode::usage));
}

TEST(CompareCommand, ReadsSafetensorsAndSaysBlocksAndBytes) {
  const TemporaryFolder folder;
  const std::vector<TensorInfo> infos{{.name = "a.weight", .type = TensorType::bf16, .dims = {3, 40}},
                                      {.name = "b", .type = TensorType::f32, .dims = {32}}};
  SafetensorsWriter writer(folder / "x.safetensors", infos);
  std::vector<float> values(152);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = float(i) / 8;
  writer.write(values);
  writer.finish();
  Result r = run_program(folder.path(), {"compare", "x.safetensors:a.weight", "--format", "mxfp4"});
  EXPECT_EQ(r.code, 0) << r.output;
  EXPECT_TRUE(contains(r.output, "3 rows of 40, 480 bytes in f32")) << r.output;
  EXPECT_TRUE(contains(r.output, "    6         66 ")) << "two blocks a row, 60 bytes of codes\n" << r.output;
  r = run_program(folder.path(), {"quantize", "x.safetensors:b", "p.h5"});
  EXPECT_TRUE(contains(r.output, "17 bytes in 1 blocks for 128 of f32")) << r.output;
  r = run_program(folder.path(), {"verify", "p.h5"});
  EXPECT_EQ(r.code, 0) << r.output;
  EXPECT_TRUE(contains(r.output, "mxtape packed tensor, mxfp4")) << r.output;
  r = run_program(folder.path(), {"compare", "x.safetensors"});
  EXPECT_EQ(r.code, int(ExitCode::data));
  EXPECT_TRUE(contains(r.output,
                       "x.safetensors: holds 2 tensors; say which, as x.safetensors:name; there are: "
                       "a.weight b"))
      << r.output;
  r = run_program(folder.path(), {"compare", "x.safetensors:a.weigth"});
  EXPECT_TRUE(contains(r.output, "no tensor 'a.weigth'; did you mean 'a.weight'?")) << r.output;
  r = run_program(folder.path(), {"compare", "."});
  EXPECT_TRUE(contains(r.output, ".: a folder; want FILE.npy, FILE.safetensors:NAME or FILE.h5:/dataset"))
      << r.output;
  write_atomically(folder / "x.bin", std::string_view("none of these"));
  r = run_program(folder.path(), {"compare", "x.bin"});
  EXPECT_TRUE(contains(r.output, "; want FILE.npy, FILE.safetensors:NAME")) << r.output;
}

TEST(CompareCommand, MeasuresWhatIsFiniteAndNoBlocksWithoutThem) {
  const TemporaryFolder folder;
  write_npy(folder / "x.npy", std::vector<std::int64_t>{1, 4}, std::vector<float>{NAN, 3, -4, 5});
  const Result r = run_program(folder.path(), {"compare", "x.npy", "--format", "e4m3", "--json"});
  EXPECT_EQ(r.code, 0) << r.output;
  const auto out = nlohmann::json::parse(r.output);
  EXPECT_NEAR(out["tensor"]["rms"].get<double>(), std::sqrt(50.0 / 3), 1e-12);
  EXPECT_NEAR(out["tensor"]["crest_factor"].get<double>(), 5 / std::sqrt(50.0 / 3), 1e-12);
  EXPECT_EQ(out["formats"][0]["not_finite"], 1);
  EXPECT_EQ(out["formats"][0]["blocks"], 0);
  EXPECT_TRUE(out["formats"][0]["scales"].empty());
}

TEST(CompareCommand, MarksTheBestOfTheFormatsThatShareAWidth) {
  const TemporaryFolder folder;
  const Result r = run_program(folder.path(), {"compare", "--normal", "64x64", "--format", "mxfp4",
                                               "--format", "nvfp4", "--format", "mxint8", "--scales"});
  EXPECT_EQ(r.code, 0) << r.output;
  EXPECT_TRUE(contains(r.output, "\n* nvfp4")) << r.output;
  EXPECT_TRUE(contains(r.output, "\n* mxint8")) << r.output;
  EXPECT_TRUE(contains(r.output, "\n  mxfp4")) << r.output;
  EXPECT_TRUE(contains(r.output, "scales  2^-")) << r.output;
}

TEST(CompareCommand, RefusesWhatItCannotRead) {
  const TemporaryFolder folder;
  write_sample(folder);
  EXPECT_EQ(run_program(folder.path(), {"compare"}).code, 2);
  EXPECT_EQ(run_program(folder.path(), {"compare", "x.npy", "--normal", "2x2"}).code, 2);
  EXPECT_EQ(run_program(folder.path(), {"compare", "--normal", "0x7"}).code, 2);
  EXPECT_EQ(run_program(folder.path(), {"compare", "absent.npy"}).code, 3);
  EXPECT_EQ(run_program(folder.path(), {"compare", "x.npy:/data"}).code, 3);
  const Result r = run_program(folder.path(), {"compare", "x.npy", "--format", "mxpf4"});
  EXPECT_EQ(r.code, 2);
  EXPECT_TRUE(contains(r.output, "did you mean 'mxfp4'?")) << r.output;
}

TEST(QuantizeCommand, PacksATensorAndGivesBackItsRoundedValues) {
  const TemporaryFolder folder;
  const auto x = write_sample(folder);
  for (const std::string format : {"mxfp4 rule=even", "nvfp4 round=stochastic", "mxfp6 block=axis",
                                   "mxint8 offset=fp16", "mxfp8_e5m2 scale=f32", "bf16"}) {
    for (const std::string axis : {"cols", "rows"}) {
      std::vector<std::string> pack{"quantize", "x.npy", "p.h5",   "--force",
                                    "--format", format,  "--axis", axis};
      if (parse_quantizer(format).is_stochastic()) pack.insert(pack.end(), {"--seed", "5"});
      ASSERT_EQ(run_program(folder.path(), pack).code, 0);
      ASSERT_EQ(run_program(folder.path(), {"quantize", "p.h5", "y.npy", "--back", "--force"}).code, 0)
          << format;
      std::vector<float> want(x.size());
      const float multiplier =
          quantize_reference(want.data(), x.data(), 20, 50, axis == "rows" ? Axis::column : Axis::row,
                             parse_quantizer(format), {5});
      for (float& v : want) v *= multiplier;
      const NpyArray got = read_npy(folder / "y.npy");
      EXPECT_EQ(got.dims, (std::vector<std::int64_t>{20, 50}));
      EXPECT_EQ(got.values, want) << format << " " << axis;
    }
  }
  ASSERT_EQ(run_program(folder.path(), {"quantize", "p.h5", "z.h5:/group/values", "--back"}).code, 0);
  EXPECT_EQ(run_program(folder.path(), {"compare", "z.h5:/group/values", "--format", "mxfp4"}).code, 0);
}

TEST(QuantizeCommand, RefusesAlteredFilesAndOtherKindsAndLeavesNoOutput) {
  const TemporaryFolder folder;
  write_sample(folder);
  ASSERT_EQ(run_program(folder.path(), {"quantize", "x.npy", "p.h5"}).code, 0);
  ASSERT_EQ(run_program(folder.path(), {"quantize", "p.h5", "z.h5", "--back"}).code, 0);
  EXPECT_EQ(run_program(folder.path(), {"quantize", "z.h5", "y.npy", "--back"}).code, 3);
  auto altered = read_whole(folder / "p.h5");
  altered[altered.size() / 2] ^= std::byte{4};
  write_atomically(folder / "p.h5", std::span<const std::byte>(altered));
  EXPECT_EQ(run_program(folder.path(), {"quantize", "p.h5", "y.npy", "--back"}).code, 3);
  EXPECT_FALSE(std::filesystem::exists(folder / "y.npy"));
  EXPECT_EQ(run_program(folder.path(), {"quantize", "x.npy", "q.h5", "--format", "mxfp4 4o6"}).code, 2);
  EXPECT_EQ(run_program(folder.path(), {"quantize", "x.npy", "x.npy/q.h5"}).code, 6);
}

TEST(QuantizeCommand, WritesOverNothingThatItReadsOrThatHoldsOtherTensors) {
  const TemporaryFolder folder;
  write_sample(folder);
  ASSERT_EQ(run_program(folder.path(), {"quantize", "x.npy", "p.h5"}).code, 0);
  ASSERT_EQ(run_program(folder.path(), {"quantize", "p.h5", "two.h5:/a", "--back"}).code, 0);
  const auto packed = read_whole(folder / "p.h5"), two = read_whole(folder / "two.h5");
  for (const auto& [arguments, message] :
       {std::pair(std::vector<std::string>{"p.h5", "two.h5:/b", "--back"}, "two.h5: is there already"),
        {{"x.npy", "two.h5"}, "two.h5: is there already; --force writes over it, or name another file"},
        {{"p.h5", "./p.h5", "--back"}, "./p.h5: this command reads or writes that file already"},
        {{"p.h5", "p.h5:/b", "--back"}, "p.h5: this command reads or writes that file already"},
        {{"two.h5:/a", "two.h5"}, "two.h5: this command reads or writes that file already"},
        {{"x.npy", "y.npy"}, "y.npy: want FILE.h5"},
        {{"p.h5", "y.txt", "--back"}, "y.txt: want FILE.npy"}}) {
    auto command = arguments;
    command.insert(command.begin(), "quantize");
    const Result r = run_program(folder.path(), command);
    EXPECT_EQ(r.code, 2) << r.output;
    EXPECT_TRUE(contains(r.output, message)) << r.output;
  }
  EXPECT_EQ(read_whole(folder / "p.h5"), packed);
  EXPECT_EQ(read_whole(folder / "two.h5"), two);
  EXPECT_EQ(folder.names(), (std::vector<std::string>{"output.txt", "p.h5", "two.h5", "x.npy"}));
}

TEST(QuantizeCommand, NamesTheElementThatAFormatWithoutNaNCannotHold) {
  const TemporaryFolder folder;
  auto x = write_sample(folder);
  x[123] = NAN;
  write_npy(folder / "x.npy", std::vector<std::int64_t>{20, 50}, x);
  const Result r = run_program(folder.path(), {"quantize", "x.npy", "p.h5", "--format", "e2m1"});
  EXPECT_EQ(r.code, 3);
  EXPECT_TRUE(contains(r.output, "element 123 is NaN")) << r.output;
  EXPECT_FALSE(std::filesystem::exists(folder / "p.h5"));
}

TEST(FormatCommands, AnUnknownDeviceIsAnErrorBeforeAnyWork) {
  const TemporaryFolder folder;
  write_sample(folder);
  for (const std::vector<std::string>& command :
       {std::vector<std::string>{"quantize", "x.npy", "p.h5"}, {"quantize", "p.h5", "y.npy", "--back"}}) {
    auto arguments = command;
    arguments.insert(arguments.end(), {"--device", "tpu"});
    const Result r = run_program(folder.path(), arguments);
    EXPECT_EQ(r.code, 2);
    EXPECT_TRUE(contains(r.output, "no device 'tpu'; this build has: cpu")) << r.output;
  }
  EXPECT_FALSE(std::filesystem::exists(folder / "p.h5"));
}

TEST(FormatCommands, AnOptionWithoutEffectIsRefused) {
  const TemporaryFolder folder;
  write_sample(folder);
  for (const std::vector<std::string>& command :
       {std::vector<std::string>{"quantize", "x.npy", "p.h5", "--seed", "5"},
        {"compare", "x.npy", "--format", "mxfp4", "--seed", "5"},
        {"corpus", "--tales", "1", "--validation", "0.2"},
        {"corpus", "--tales", "5", "--force"},
        {"corpus", "--characters", "10"},
        {"corpus", "--tales", "5", "--characters", "10", "--text", "c.txt"},
        {"corpus", "--score", "x.txt", "--seed", "2"},
        {"corpus", "--score", "x.txt", "--validation", "0.2"},
        {"recipes", "precision/mxfp4", "--reference"}})
    EXPECT_EQ(run_program(folder.path(), command).code, 2) << command[0] << " " << command.back();
  EXPECT_EQ(
      run_program(folder.path(), {"compare", "x.npy", "--format", "mxfp4 round=stochastic", "--seed", "5"})
          .code,
      0);
  EXPECT_EQ(run_program(folder.path(), {"compare", "x.npy", "--seed", "5"}).code, 0);
}

TEST(FormatCommands, WhatWasNotMeasuredOnEveryElementIsNotCalledTheBest) {
  const TemporaryFolder folder;
  auto x = write_sample(folder);
  for (float& v : x) v *= 1e6f;
  write_npy(folder / "x.npy", std::vector<std::int64_t>{20, 50}, x);
  Result r = run_program(folder.path(), {"compare", "x.npy", "--format", "f16", "--format", "bf16"});
  EXPECT_TRUE(contains(r.output, "\n  f16 ")) << r.output;
  EXPECT_TRUE(contains(r.output, "elements not finite, left out\n* bf16 ")) << r.output;

  std::fill(x.begin(), x.end(), 1e6f);
  write_npy(folder / "x.npy", std::vector<std::int64_t>{20, 50}, x);
  r = run_program(folder.path(), {"compare", "x.npy", "--format", "f16"});
  EXPECT_TRUE(contains(r.output, " -          -         -        -          -  100.00%")) << r.output;
  EXPECT_FALSE(contains(r.output, "* f16")) << r.output;
  r = run_program(folder.path(), {"quantize", "x.npy", "p.h5", "--format", "f16"});
  EXPECT_EQ(r.code, 0);
  EXPECT_TRUE(contains(r.output, "SQNR -\n      1000 elements not finite, left out of the SQNR")) << r.output;
}

}  // namespace
}  // namespace mxtape
