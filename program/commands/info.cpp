#include <fmt/chrono.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>

#include "program/checkpoints/tensor_numbers.h"
#include "program/command.h"
#include "program/json/recipe_json.h"
#include "program/model_text.h"
#include "program/packed/packed_table.h"
#include "program/run_name.h"
#include "recipes/text/precision_table.h"
#include "train/checkpoint.h"
#include "train/memory/memory_plan.h"

namespace mxtape {
namespace {

struct Row {
  Hdf5Reader::Info info;
  std::int64_t bytes;
  TensorNumbers numbers;
};

std::vector<Row> rows_of(const Hdf5Reader& file) {
  std::vector<Row> rows;
  for (auto& info : file.datasets()) {
    const auto values = file.read_f32(info.name);
    rows.push_back({std::move(info), std::int64_t(values.size() * sizeof(float)), numbers_of(values)});
  }
  std::stable_partition(rows.begin(), rows.end(),
                        [](const Row& row) { return row.info.name.starts_with("parameters/"); });
  return rows;
}

/// When the file was last written, "2026-11-22 03:00:25 UTC". A checkpoint itself holds no time: equal runs
/// give equal bytes.
std::string written_at(const std::filesystem::path& path) {
  struct stat status {};
  const bool known = ::stat(path.c_str(), &status) == 0;
  require(known, ExitCode::resource, "{}: cannot be looked at: {}", path.string(), std::strerror(errno));
  return fmt::format("{:%Y-%m-%d %H:%M:%S} UTC", fmt::gmtime(status.st_mtime));
}

/// The recipe with the precision that holds at `step`, and no other.
Recipe recipe_at(Recipe recipe, std::int64_t step) {
  recipe.precision.rules = rules_at(recipe, step);
  recipe.precision.phases.clear();
  return recipe;
}

/// Of older files, which do not say it.
constexpr const char* unknown_writer = "not known: written before checkpoints said it";

void print_tensors(const std::vector<Row>& rows) {
  std::size_t name = 6, shape = 5;
  for (const Row& row : rows) {
    name = std::max(name, row.info.name.size());
    shape = std::max(shape, indices_text(row.info.dims).size());
  }
  fmt::print("{:<{}}  {:<{}}  {:<5}  {:>12}  {:>10}  {:>10}\n", "tensor", name, "shape", shape, "dtype",
             "bytes", "rms", "largest");
  for (const Row& row : rows) {
    fmt::print("{:<{}}  {:<{}}  {:<5}  {:>12}  {:>10.4g}  {:>10.4g}", row.info.name, name,
               indices_text(row.info.dims), shape, row.info.type, row.bytes, row.numbers.rms,
               row.numbers.largest);
    fmt::print("{}\n", row.numbers.not_finite
                           ? fmt::format("  {} numbers not finite, left out", row.numbers.not_finite)
                           : "");
  }
}

void print_info(const std::filesystem::path& path, const CheckpointFile& checkpoint) {
  const CheckpointHeader& header = checkpoint.header();
  const Recipe& recipe = header.recipe;
  const ModelConfig& m = recipe.model;
  fmt::print("checkpoint  {}, {}\n", path.string(), bytes_text(double(std::filesystem::file_size(path))));
  fmt::print("written     {} by {}\n", written_at(path),
             header.written_by.empty() ? unknown_writer : header.written_by);
  fmt::print("step        {} of {}\n", header.step, recipe.train.steps);
  fmt::print("recipe      {}   seed {}\n", recipe.name, recipe.seed);
  fmt::print("model       {}: {}\n", m.kind, model_text(m));
  const bool of_files = header.tokenizer.kind() == Tokenizer::Kind::subwords;
  fmt::print("tokenizer   {}{}\n", header.tokenizer.text(),
             of_files ? ", hash " + header.tokenizer.hash() : "");
  fmt::print("data        {}, hash {}\n", recipe.data.file, header.data_hash);
  if (!header.lineage.empty()) {
    for (const auto& turn : Json::parse(header.lineage)) {
      const std::string parent = turn.value("parent", "");
      const std::string from =
          turn.contains("from") ? fmt::format(", from step {}", turn.value("from", 0)) : "";
      fmt::print(
          "{:<10}  at step {}{}\n", turn.value("event", ""), turn.value("step", 0),
          parent.empty() ? from : fmt::format(" of {}, content hash {}", parent, turn.value("hash", "")));
      for (const auto& change : turn["changed"]) fmt::print("  {}\n", change.get<std::string>());
    }
  }
  fmt::print("precision in force\n{}\n", precision_table(recipe_at(recipe, header.step)));
  print_tensors(rows_of(checkpoint.file()));
}

void print_info_json(const std::filesystem::path& path, const CheckpointFile& checkpoint) {
  const CheckpointHeader& header = checkpoint.header();
  const Recipe& recipe = header.recipe;
  Json json{{"checkpoint", path.string()}, {"bytes", std::filesystem::file_size(path)}};
  json["written_at"] = written_at(path);
  put_if_known(json, "written_by", header.written_by, unknown_writer);
  json["step"] = header.step;
  json["steps"] = recipe.train.steps;
  json["recipe"] = recipe.name;
  json["seed"] = recipe.seed;
  json["parameters"] = parameter_count(recipe.model);
  json["tokenizer"] = header.tokenizer.text();
  json["tokenizer_hash"] = header.tokenizer.hash();
  json["data"] = recipe.data.file;
  json["data_hash"] = header.data_hash;
  json["lineage"] = header.lineage.empty() ? Json::array() : Json::parse(header.lineage);
  json["keys"] = recipe_json(recipe);
  json["precision"] = precision_json(recipe_at(recipe, header.step)).front();
  json["tensors"] = Json::array();
  for (const Row& row : rows_of(checkpoint.file()))
    json["tensors"].push_back({{"name", row.info.name},
                               {"shape", row.info.dims},
                               {"dtype", row.info.type},
                               {"bytes", row.bytes},
                               {"rms", row.numbers.rms},
                               {"largest", row.numbers.largest},
                               {"not_finite", row.numbers.not_finite}});
  print_json(json);
}

}  // namespace

void add_info_command(CLI::App& app) {
  auto* command = app.add_subcommand("info",
                                     "What a checkpoint or packed model holds: step, recipe, model, "
                                     "precision, and every tensor with its size");
  auto run = std::make_shared<std::string>();
  auto json = std::make_shared<bool>(false);
  command->add_option("RUN", *run, model_name_help)->required();
  add_json_option(*command, *json);
  command->callback([=] {
    const auto path = checkpoint_of(*run);
    const auto file = open_sealed(path);
    if (content_of(*file) == packed_content)
      return *json ? print_json(packed_info_json(PackedModelFile(file)))
                   : print_packed_info(PackedModelFile(file));
    const auto print = *json ? print_info_json : print_info;
    print(path, CheckpointFile(file));
  });
}

}  // namespace mxtape
