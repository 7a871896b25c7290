#include <nlohmann/json.hpp>

#include "core/error.h"
#include "core/files/atomic_file.h"
#include "core/files/output_file.h"
#include "data/safetensors/safetensors_writer.h"
#include "interop/export.h"
#include "interop/hf_config.h"
#include "interop/hf_names.h"
#include "interop/transposed.h"

namespace mxtape {
namespace {

namespace fs = std::filesystem;

/// A tensor of theirs and the tensor of ours that it is a part of.
struct OutputTensor {
  std::string ours;
  TensorPart part;
};

std::string type_name(TensorType type) {
  return type == TensorType::f32 ? "float32" : type == TensorType::f16 ? "float16" : "bfloat16";
}

/// Takes rows of padding off; none of them may be a token.
void cut_vocabulary(ModelFacts& model, const Tokenizer& tokenizer, std::optional<std::int64_t> rows) {
  if (!rows) return;
  const std::int64_t known = tokenizer.kind() == Tokenizer::Kind::ids ? 1 : tokenizer.size();
  require(*rows >= known && *rows <= model.vocabulary, ExitCode::usage,
          "--vocabulary {}: the table has {} rows, the tokenizer {}; want {} to {}", *rows, model.vocabulary,
          tokenizer.text(), known, model.vocabulary);
  model.vocabulary = *rows;
}

std::vector<OutputTensor> output_tensors(const ModelFacts& model) {
  std::vector<OutputTensor> all;
  for (const TensorPlan& tensor : tensor_plan(model))
    for (const TensorPart& part : tensor.parts) all.push_back({tensor.ours, part});
  return all;
}

void write_part(SafetensorsWriter& writer, const TensorPart& part, const std::vector<float>& ours) {
  const auto values = std::span(ours).subspan(std::size_t(part.first_row * part.row_width()),
                                              std::size_t(part.rows * part.cols));
  if (part.transposed)
    transposed(values, part.rows, part.cols, [&](std::span<const float> some) { writer.write(some); });
  else
    writer.write(values);
}

/// The weights as one file or as shards with an index.
void write_weights(const fs::path& folder, const ModelFacts& model, const WeightSource& source,
                   const ExportOptions& options) {
  const auto tensors = output_tensors(model);
  std::vector<TensorInfo> infos;
  for (const OutputTensor& tensor : tensors)
    infos.push_back({.name = tensor.part.theirs, .type = options.type, .dims = tensor.part.their_dims()});
  const auto shards = plan_shards(infos, options.shard_bytes);
  std::size_t next = 0;
  std::string held;  // several of theirs may be parts of one of ours
  std::vector<float> values;
  for (const SafetensorsShard& shard : shards) {
    SafetensorsWriter writer(folder / shard.name, shard.tensors);
    for (std::size_t i = 0; i < shard.tensors.size(); ++i, ++next) {
      const OutputTensor& tensor = tensors[next];
      if (held != tensor.ours) {
        const bool zeros = tensor.part.optional;
        values = zeros ? std::vector<float>(std::size_t(tensor.part.rows * tensor.part.cols))
                       : source(tensor.ours);
        held = tensor.ours;
      }
      write_part(writer, tensor.part, values);
    }
    writer.finish();
  }
  if (shards.size() > 1) write_atomically(folder / "model.safetensors.index.json", index_of(shards));
}

}  // namespace

std::uint64_t export_hf_folder(const fs::path& path, ModelFacts model, const WeightSource& source,
                               const TokenizerFiles& tokenizer, const ExportOptions& options) {
  cut_vocabulary(model, tokenizer.tokenizer, options.vocabulary);
  UnfinishedFolder folder(path);
  write_atomically(folder.path() / "config.json",
                   hf_config_of(model, type_name(options.type)).dump(2) + "\n");
  write_weights(folder.path(), model, source, options);
  write_tokenizer_files(folder.path(), tokenizer, model);
  return folder.finish();
}

std::uint64_t export_plain_file(const fs::path& path,
                                const std::vector<std::pair<std::string, Shape>>& shapes,
                                const WeightSource& source, const ExportOptions& options) {
  std::vector<TensorInfo> infos;
  for (const auto& [name, shape] : shapes) {
    TensorInfo info{.name = name, .type = options.type, .dims = {}};
    for (int axis = 0; axis < shape.rank; ++axis) info.dims.push_back(std::uint64_t(shape[axis]));
    infos.push_back(std::move(info));
  }
  UnfinishedFile file(path);
  SafetensorsWriter writer(file.path(), infos, {{"format", "mxtape"}});
  for (const auto& [name, shape] : shapes) writer.write(source(name));
  writer.finish();
  return file.finish();
}

}  // namespace mxtape
