#include "program/packed/packed_table.h"

#include <algorithm>
#include <string>

#include "program/checkpoints/tensor_numbers.h"
#include "program/json/recipe_json.h"
#include "program/model_text.h"
#include "recipes/text/precision_table.h"
#include "train/memory/memory_plan.h"

namespace mxtape {
namespace {

using Row = PackedModelFile::Row;

double bits_of(const Row& row) { return 8 * double(row.bytes) / double(row.numbers()); }

std::string format_of(const Row& row) {
  return row.rotation.empty() ? row.format : row.format + ", " + row.rotation;
}

std::int64_t bytes_of(const std::vector<Row>& rows) {
  std::int64_t sum = 0;
  for (const Row& row : rows) sum += row.bytes;
  return sum;
}

/// Each parameter in f32 once, as a checkpoint has it.
std::int64_t f32_bytes(const PackedModelFile& file) {
  return 4 * parameter_count(file.header().model.recipe.model);
}

struct Line {
  std::string name, format, shape;
  double bits;
  std::int64_t bytes;
};

std::vector<Line> lines_of(const std::vector<Row>& rows) {
  std::vector<Line> lines;
  std::int64_t count = 0, bytes = 0;
  for (const Row& row : rows) {
    if (row.dims.size() > 1)
      lines.push_back({row.name, format_of(row), indices_text(row.dims), bits_of(row), row.bytes});
    else
      ++count, bytes += row.bytes;
  }
  if (count) lines.push_back({fmt::format("{} norms and biases", count), "f32", "", 32, bytes});
  return lines;
}

std::string precision_of(const PackedHeader& header) {
  return header.precision == "recipe" ? "recipe: as it was trained" : header.precision;
}

}  // namespace

void print_packed_table(const PackedModelFile& file) {
  const auto rows = file.rows();
  const auto lines = lines_of(rows);
  std::size_t name = 6, format = 6, shape = 5;
  for (const Line& line : lines) {
    name = std::max(name, line.name.size());
    format = std::max(format, line.format.size());
    shape = std::max(shape, line.shape.size());
  }
  fmt::print("{:<{}}  {:<{}}  {:<{}}  {:>6}  {:>12}\n", "tensor", name, "format", format, "shape", shape,
             "bits", "bytes");
  for (const Line& line : lines)
    fmt::print("{:<{}}  {:<{}}  {:<{}}  {:>6.2f}  {:>12}\n", line.name, name, line.format, format, line.shape,
               shape, line.bits, line.bytes);
  const std::int64_t bytes = bytes_of(rows), wide = f32_bytes(file);
  fmt::print("total   {}, 1/{:.2f} of the {} in f32\n", bytes_text(double(bytes)),
             double(wide) / double(bytes), bytes_text(double(wide)));
}

void put_packed_table(Json& json, const PackedModelFile& file) {
  const auto rows = file.rows();
  json["tensors"] = Json::array();
  for (const Row& row : rows)
    json["tensors"].push_back({{"name", row.name},
                               {"packed", row.packed},
                               {"format", row.format},
                               {"rotation", row.rotation},
                               {"shape", row.dims},
                               {"bits_per_number", bits_of(row)},
                               {"bytes", row.bytes}});
  json["tensor_bytes"] = bytes_of(rows);
  json["f32_bytes"] = f32_bytes(file);
  json["ratio"] = double(f32_bytes(file)) / double(bytes_of(rows));
}

void print_packed_info(const PackedModelFile& file) {
  const CheckpointHeader& header = file.header().model;
  const ModelConfig& m = header.recipe.model;
  const auto path = file.file().path();
  fmt::print("packed      {}, {}\n", path.string(), bytes_text(double(std::filesystem::file_size(path))));
  fmt::print("written     by {}\n", header.written_by);
  fmt::print("from        the checkpoint with content hash {}\n", file.header().source_hash);
  fmt::print("step        {} of {}\n", header.step, header.recipe.train.steps);
  fmt::print("recipe      {}   seed {}\n", header.recipe.name, header.recipe.seed);
  fmt::print("model       {}: {}\n", m.kind, model_text(m));
  fmt::print("tokenizer   {}\n", header.tokenizer.text());
  fmt::print("data        {}, hash {}\n", header.recipe.data.file, header.data_hash);
  fmt::print("precision   {}\n{}\n", precision_of(file.header()), precision_table(header.recipe));
  print_packed_table(file);
}

Json packed_info_json(const PackedModelFile& file) {
  const CheckpointHeader& header = file.header().model;
  const auto path = file.file().path();
  Json json{{"packed", path.string()}, {"bytes", std::filesystem::file_size(path)}};
  json["written_by"] = header.written_by;
  json["source_hash"] = file.header().source_hash;
  json["packed_precision"] = file.header().precision;
  json["step"] = header.step;
  json["steps"] = header.recipe.train.steps;
  json["recipe"] = header.recipe.name;
  json["seed"] = header.recipe.seed;
  json["parameters"] = parameter_count(header.recipe.model);
  json["tokenizer"] = header.tokenizer.text();
  json["data"] = header.recipe.data.file;
  json["data_hash"] = header.data_hash;
  json["lineage"] = header.lineage.empty() ? Json::array() : Json::parse(header.lineage);
  json["keys"] = recipe_json(header.recipe);
  json["precision"] = precision_json(header.recipe).front();
  put_packed_table(json, file);
  return json;
}

}  // namespace mxtape
