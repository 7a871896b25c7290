#include <nlohmann/json.hpp>

#include "core/error.h"
#include "core/files/atomic_file.h"
#include "core/files/output_file.h"
#include "data/safetensors/safetensors_writer.h"
#include "interop/export.h"
#include "interop/hf_config.h"
#include "interop/transposed.h"
#include "recipes/text/precision_notes.h"

namespace mxtape {
namespace {

namespace fs = std::filesystem;

/// A tensor of theirs: its bytes, or the tensor of ours that it is a part of.
struct OutputTensor {
  StoredTensor stored;
  std::string ours{};
  TensorPart part{};
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

std::vector<OutputTensor> output_tensors(const ModelFacts& model, const ExportOptions& options,
                                         nlohmann::ordered_json& config, std::vector<std::string>& notes) {
  std::vector<OutputTensor> all;
  PrecisionPlan unsaid = options.compressed ? *options.precision : PrecisionPlan();
  nlohmann::ordered_json groups;
  for (const TensorPlan& plan : tensor_plan(model)) {
    const MxTensor* const codes = options.compressed ? options.codes(plan.ours) : nullptr;
    std::vector<StoredTensor> compressed;
    if (codes && codes->quantizer != bf16_cast) {
      const std::string layer = plan.ours.substr(0, plan.ours.rfind('.'));
      compressed = compressed_tensors(plan, *codes, unsaid.linear.at(layer).fprop_x, groups);
      if (compressed.empty())
        notes.push_back(fmt::format("{}: rows of {} in {} have no codes there; they are in {}", plan.ours,
                                    codes->cols, to_text(codes->quantizer), name_of(options.type)));
    }
    for (StoredTensor& one : compressed) all.push_back({std::move(one)});
    if (!compressed.empty()) continue;
    for (const TensorPart& part : plan.parts)
      all.push_back({{{part.theirs, options.type, part.their_dims()}}, plan.ours, part});
  }
  if (!options.compressed) return all;
  require(!groups.is_null(), ExitCode::usage,
          "--to compressed-tensors: no rounded weights have codes of MXFP4 or NVFP4; want --to hf");
  config["quantization_config"] = {
      {"quant_method", "compressed-tensors"},
      {"format", groups.size() == 1 ? groups.front()["format"] : "mixed-precision"},
      {"quantization_status", "compressed"},
      {"config_groups", groups}};
  note_activations(unsaid, "compressed-tensors", notes);
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
void write_weights(const fs::path& folder, const std::vector<OutputTensor>& tensors,
                   const WeightSource& source, std::uint64_t shard_bytes) {
  std::vector<TensorInfo> infos;
  for (const OutputTensor& tensor : tensors) infos.push_back(tensor.stored.info);
  const auto shards = plan_shards(infos, shard_bytes);
  std::size_t next = 0;
  std::string held;  // several of theirs may be parts of one of ours
  std::vector<float> values;
  for (const SafetensorsShard& shard : shards) {
    SafetensorsWriter writer(folder / shard.name, shard.tensors);
    for (std::size_t i = 0; i < shard.tensors.size(); ++i, ++next) {
      const OutputTensor& tensor = tensors[next];
      if (tensor.ours.empty()) {
        writer.write_bytes(tensor.stored.bytes);
        continue;
      }
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
                               const TokenizerFiles& tokenizer, const ExportOptions& options,
                               std::vector<std::string>& notes) {
  cut_vocabulary(model, tokenizer.tokenizer, options.vocabulary);
  auto config = hf_config_of(model, type_name(options.type));
  const auto tensors = output_tensors(model, options, config, notes);
  UnfinishedFolder folder(path);
  write_atomically(folder.path() / "config.json", config.dump(2) + "\n");
  write_weights(folder.path(), tensors, source, options.shard_bytes);
  write_tokenizer_files(folder.path(), tokenizer, model);
  return folder.finish();
}

std::uint64_t export_plain_file(const fs::path& path,
                                const std::vector<std::pair<std::string, Shape>>& shapes,
                                const WeightSource& source, const ExportOptions& options) {
  std::vector<TensorInfo> infos;
  for (const auto& [name, shape] : shapes)
    infos.push_back({name, options.type, {shape.dims.begin(), shape.dims.begin() + shape.rank}});
  UnfinishedFile file(path);
  SafetensorsWriter writer(file.path(), infos, {{"format", "mxtape"}});
  for (const auto& [name, shape] : shapes) writer.write(source(name));
  writer.finish();
  return file.finish();
}

}  // namespace mxtape
