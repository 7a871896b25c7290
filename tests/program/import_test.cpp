#include "program/models/import.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <cmath>
#include <fstream>

#include "data/safetensors/safetensors_folder.h"
#include "program/models/export.h"
#include "program/models/trained_model.h"
#include "tests/conformance/imported.h"
#include "tests/program/program.h"
#include "tests/support/foreign_gpt2.h"
#include "tests/support/temporary_folder.h"

namespace mxtape {
namespace {

namespace fs = std::filesystem;
using test::contains, test::ForeignGpt2, test::Result, test::run_program;

/// How far an imported folder's logits are from the model's own formula, as a share of the largest.
double distance(const fs::path& source, const ForeignGpt2& model) {
  TrainedModel trained = conformance::imported_model(source, "cpu");
  conformance::ExpectedLogits expected{.batch = 1, .time = model.T - 1};
  for (std::int32_t t = 0; t + 1 < model.T; ++t)
    expected.inputs.push_back((t * 7 + 3) % std::int32_t(model.V));
  const auto got = conformance::logits_of(trained, expected);
  const auto want = model.logits(expected.inputs);
  EXPECT_EQ(got.size(), want.size());
  double largest = 0, off = 0;
  for (std::size_t i = 0; i < want.size(); ++i) {
    largest = std::max(largest, std::fabs(want[i]));
    off = std::max(off, std::fabs(double(got[i]) - want[i]));
  }
  return off / largest;
}

constexpr double bound = 1e-5;  // conformance::logit_tolerance(), of short texts

TEST(Import, LogitsOfAnImportedFolderAreThoseOfTheClassesFormulas) {
  const TemporaryFolder folder;
  ForeignGpt2 model;
  model.draw(1);
  model.write(folder / "tied");
  EXPECT_LE(distance(folder / "tied", model), bound);
  for (const TensorType type : {TensorType::f16, TensorType::bf16}) {
    model.write(folder / std::string(name_of(type)), type, 2000);  // shards
    EXPECT_LE(distance(folder / std::string(name_of(type)), model), bound);
  }
  ForeignGpt2 other{.H = 4, .F = 20, .tied = false, .erf = true, .eps = 1e-3, .prefix = ""};
  other.draw(2);
  other.write(folder / "other");
  EXPECT_LE(distance(folder / "other", other), bound);
}

TEST(Import, TheBoundIsNarrowEnoughForTheSmallestMistakes) {
  const TemporaryFolder folder;
  ForeignGpt2 model;
  model.draw(1);
  model.write(folder / "model");
  ForeignGpt2 wrong = model;
  wrong.eps *= 10;
  EXPECT_GT(distance(folder / "model", wrong), bound) << "eps";
  wrong = model;
  wrong.erf = true;
  EXPECT_GT(distance(folder / "model", wrong), bound) << "the other GELU";
  wrong = model;
  auto& square = wrong.tensors.at("h.0.attn.c_proj.weight").values;
  for (std::int64_t i = 0; i < model.C; ++i)
    for (std::int64_t j = 0; j < i; ++j)
      std::swap(square[std::size_t(i * model.C + j)], square[std::size_t(j * model.C + i)]);
  EXPECT_GT(distance(folder / "model", wrong), bound) << "the square weight transposed";
}

TEST(Import, TensorsInTheLayoutOfLinearLayersAreToldByTheirShape) {
  const TemporaryFolder folder;
  ForeignGpt2 model;
  model.draw(3);
  ForeignGpt2 linear = model;
  for (auto& [name, tensor] : linear.tensors) {
    if (name.find(".c_") == std::string::npos || tensor.dims.size() != 2) continue;
    std::vector<float> turned(tensor.values.size());
    for (std::uint64_t i = 0; i < tensor.dims[0]; ++i)
      for (std::uint64_t j = 0; j < tensor.dims[1]; ++j)
        turned[j * tensor.dims[0] + i] = tensor.values[i * tensor.dims[1] + j];
    tensor.values = turned;
    std::swap(tensor.dims[0], tensor.dims[1]);
  }
  linear.write(folder / "linear");
  EXPECT_LE(distance(folder / "linear", model), bound) << "the square ones too";
  linear.tensors.at("h.1.mlp.c_fc.weight") = model.tensors.at("h.1.mlp.c_fc.weight");
  linear.write(folder / "mixed");
  try {
    (void)open_foreign_model(folder / "mixed");
    ADD_FAILURE() << "a mixture was taken";
  } catch (const Error& e) {
    EXPECT_TRUE(contains(e.what(), "as '")) << e.what();
  }
}

TEST(Import, TensorsThatAreMissingUnexpectedOrOfAnotherShapeAreRefusedByName) {
  const TemporaryFolder folder;
  ForeignGpt2 good;
  good.draw(4);
  int number = 0;
  const auto refusal = [&](const std::function<void(ForeignGpt2&)>& spoil) {
    ForeignGpt2 model = good;
    spoil(model);
    const fs::path source = folder / fmt::format("m{}", number++);
    model.write(source);
    try {
      (void)import_model({.source = source, .out = folder / "out"});
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), ExitCode::data);
      EXPECT_FALSE(fs::exists(folder / "out"));
      return std::string(e.what());
    }
    fs::remove_all(folder / "out");
    return std::string();
  };
  EXPECT_EQ(refusal([](ForeignGpt2&) {}), "");
  EXPECT_TRUE(contains(refusal([](ForeignGpt2& m) { m.tensors.erase("ln_f.bias"); }),
                       "'transformer.ln_f.bias' is missing"));
  EXPECT_TRUE(contains(refusal([](ForeignGpt2& m) { m.tensors["h.7.x"] = m.tensors["ln_f.bias"]; }),
                       "'transformer.h.7.x'"));
  EXPECT_TRUE(contains(refusal([](ForeignGpt2& m) { m.V += 1; }),
                       "'transformer.wte.weight' is [23, 12], want [24, 12]"));
  EXPECT_TRUE(contains(refusal([](ForeignGpt2& m) { m.tied = false; }), "'lm_head.weight' is missing"));
  EXPECT_EQ(refusal([](ForeignGpt2& m) { m.tensors["lm_head.weight"] = m.tensors["wte.weight"]; }), "")
      << "the same bits";
  EXPECT_TRUE(contains(refusal([](ForeignGpt2& m) {
                         m.tensors["lm_head.weight"] = m.tensors["wte.weight"];
                         m.tensors["lm_head.weight"].values.back() += 1;
                       }),
                       "differs from the embedding"));
  EXPECT_EQ(refusal([](ForeignGpt2& m) {
              m.tensors["h.0.attn.bias"] = {{1, 1, 1, 1}, {1}};
            }),
            "")
      << "a buffer";
}

TEST(Import, ExportAndImportAgainGiveTheSameBitsAndTheSameModel) {
  const TemporaryFolder folder;
  for (const bool tied : {true, false}) {
    ForeignGpt2 model{.F = 20, .tied = tied};
    model.draw(5);
    const std::string name = tied ? "tied" : "untied";
    model.write(folder / name);
    (void)import_model({.source = folder / name, .out = folder / ("a-" + name)});
    (void)export_model(
        {.run = (folder / ("a-" + name)).string(), .out = folder / ("x-" + name), .shard_bytes = 3000});
    const SafetensorsFolder written(folder / ("x-" + name));
    EXPECT_GT(written.files().size(), 1u);
    for (const auto& [theirs, tensor] : model.tensors) {
      const auto& entry = written.tensors().at(theirs == "lm_head.weight" ? theirs : "transformer." + theirs);
      std::vector<float> values(tensor.values.size());
      entry.file->read_f32(*entry.tensor, 0, values);
      EXPECT_EQ(values, tensor.values) << theirs;
      EXPECT_EQ(entry.tensor->dims, tensor.dims) << theirs;
    }
    EXPECT_EQ(written.tensors().size(), model.tensors.size());
    EXPECT_LE(distance(folder / ("x-" + name), model), bound);
  }
}

TEST(Import, LlmcsFileGoesOutAndComesBackWithThePaddingLeftBehind) {
  const TemporaryFolder folder;
  ForeignGpt2 model;
  model.draw(6);
  model.write(folder / "hf");
  (void)import_model({.source = folder / "hf", .out = folder / "a"});
  for (const TensorType type : {TensorType::f32, TensorType::bf16}) {
    const fs::path file = folder / (std::string(name_of(type)) + ".bin");
    (void)export_model({.run = (folder / "a").string(), .out = file, .form = ExportForm::llmc, .type = type});
    const std::uint64_t numbers =
        std::uint64_t(parameter_count(load_trained_model((folder / "a").string()).header.recipe.model)) +
        std::uint64_t((128 - model.V) * model.C);
    EXPECT_EQ(fs::file_size(file), 1024 + numbers * (type == TensorType::f32 ? 4 : 2));
    EXPECT_LE(distance(file, model), bound);
  }
  ForeignGpt2 other{.tied = false};
  other.draw(7);
  other.write(folder / "untied");
  (void)import_model({.source = folder / "untied", .out = folder / "b"});
  try {
    (void)export_model({.run = (folder / "b").string(), .out = folder / "b.bin", .form = ExportForm::llmc});
    ADD_FAILURE() << "llm.c's file has no head of its own";
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ExitCode::usage);
    EXPECT_TRUE(contains(e.what(), "model.tied_head"));
    EXPECT_FALSE(fs::exists(folder / "b.bin"));
  }
}

TEST(Import, AByteChangedOrCutInLlmcsFileIsRefusedOrReadAndNothingIsLeft) {
  const TemporaryFolder folder;
  ForeignGpt2 model{.V = 5, .T = 2, .C = 2, .L = 1, .H = 1, .F = 8};
  model.draw(8);
  model.write(folder / "hf");
  (void)import_model({.source = folder / "hf", .out = folder / "a"});
  (void)export_model({.run = (folder / "a").string(), .out = folder / "good.bin", .form = ExportForm::llmc});
  const std::string good = read_whole_text(folder / "good.bin");
  const auto opened = [&](const std::string& bytes) {
    write_atomically(folder / "x.bin", bytes);
    try {
      for (const auto& tensor : open_foreign_model(folder / "x.bin").tensors)
        tensor.read([](std::span<const float>) {});
      return true;
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), ExitCode::data) << e.what();
      return false;
    }
  };
  ASSERT_TRUE(opened(good));
  for (std::size_t at = 0; at < 32; ++at)
    for (const int flip : {1, 2, 16, 128}) {
      std::string altered = good;
      altered[at] = char(altered[at] ^ flip);
      if (at < 8) {
        EXPECT_FALSE(opened(altered)) << at;
      } else {
        (void)opened(altered);
      }
    }
  for (std::size_t length = 0; length < good.size(); length += 13)
    EXPECT_FALSE(opened(good.substr(0, length))) << length;
  EXPECT_FALSE(opened(good + "x"));
}

TEST(Import, FewerPositionsKeepTheFirstRowsOfTheTable) {
  const TemporaryFolder folder;
  ForeignGpt2 model;
  model.draw(9);
  model.write(folder / "hf");
  (void)import_model({.source = folder / "hf", .out = folder / "short", .context = 5});
  TrainedModel trained = load_trained_model((folder / "short").string());
  EXPECT_EQ(trained.model->config().context, 5);
  conformance::ExpectedLogits expected{.inputs = {1, 2, 3, 4, 5}, .targets = {}, .batch = 1, .time = 5};
  const auto got = conformance::logits_of(trained, expected);
  const auto want = model.logits(expected.inputs);
  for (std::size_t i = 0; i < want.size(); ++i) EXPECT_NEAR(double(got[i]), want[i], 1e-4);
}

TEST(ImportCommand, ANameOfTheHubIsToldHowToFetchIt) {
  const TemporaryFolder folder;
  const Result r = run_program(folder.path(), {"import", "openai-community/gpt2"});
  EXPECT_EQ(r.code, int(ExitCode::data));
  EXPECT_TRUE(contains(r.output, "`hf download openai-community/gpt2 --local-dir gpt2`")) << r.output;
}

TEST(ImportCommand, AModelThatWasNotImportedIsToldToBe) {
  const TemporaryFolder folder;
  ForeignGpt2 model;
  model.draw(12);
  model.write(folder / "gpt");
  for (const char* command : {"eval", "sample"}) {
    const Result r = run_program(folder.path(), {command, "gpt"});
    EXPECT_EQ(r.code, int(ExitCode::data)) << r.output;
    EXPECT_TRUE(contains(r.output, " import gpt`, which makes a run's folder of it")) << r.output;
  }
}

TEST(ImportCommand, TheFolderThatItMakesIsARunsAtStepZero) {
  const TemporaryFolder folder;
  ForeignGpt2 model;
  model.draw(10);
  model.write(folder / "gpt");
  const auto run = [&](std::vector<std::string> arguments) { return run_program(folder.path(), arguments); };
  Result r = run({"import", "gpt"});
  ASSERT_EQ(r.code, 0) << r.output;
  EXPECT_TRUE(contains(r.output, "models/gpt/checkpoints/step_00000000.h5"));
  EXPECT_TRUE(contains(r.output, "28 read")) << r.output;
  EXPECT_TRUE(contains(r.output, "none is beside it: the model takes ids")) << r.output;
  r = run({"import", "gpt"});
  EXPECT_EQ(r.code, int(ExitCode::usage)) << r.output;
  EXPECT_TRUE(contains(r.output, "models/gpt: is there already"));
  EXPECT_TRUE(contains(run({"import", "gpt/."}).output, "models/gpt: is there already"));
  r = run({"verify", "models/gpt"});
  EXPECT_EQ(r.code, 0) << r.output;
  r = run({"info", "models/gpt"});
  EXPECT_EQ(r.code, 0) << r.output;
  EXPECT_TRUE(contains(r.output, "import"));
  r = run({"sample", "models/gpt", "--prompt", "1 2 3", "--tokens", "4"});
  EXPECT_EQ(r.code, 0) << r.output;
  write_atomically(folder / "ids.txt", std::string("1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17"));
  r = run({"eval", "models/gpt", "--text", "ids.txt", "--stride", "3", "--precision", "mxfp4"});
  EXPECT_EQ(r.code, 0) << r.output;
  EXPECT_TRUE(contains(r.output, "mxfp4"));
  r = run({"eval", "models/gpt"});
  EXPECT_EQ(r.code, int(ExitCode::usage)) << r.output;
  EXPECT_TRUE(contains(r.output, "--text FILE"));
  r = run({"export", "models/gpt", "--to", "hf", "-o", "out", "--dtype", "bf16"});
  EXPECT_EQ(r.code, 0) << r.output;
  r = run({"export", "models/gpt", "--to", "hf", "-o", "out"});
  EXPECT_EQ(r.code, int(ExitCode::usage)) << r.output;
  r = run({"export", "models/gpt", "--to", "safetensors", "-o", "plain.safetensors"});
  EXPECT_EQ(r.code, 0) << r.output;
  const SafetensorsFile plain(folder / "plain.safetensors");
  EXPECT_EQ(plain.at("blocks.0.attn.qkv.weight").dims, (std::vector<std::uint64_t>{36, 12}));
  r = run({"export", "models/gpt", "--to", "hf", "-o", "rounded", "--weights", "rounded"});
  EXPECT_EQ(r.code, int(ExitCode::usage)) << r.output;
  r = run({"import", "absent"});
  EXPECT_EQ(r.code, int(ExitCode::data)) << r.output;
}

}  // namespace
}  // namespace mxtape
