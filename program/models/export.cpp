#include "program/models/export.h"

#include <map>

#include "autograd/fixed_weight.h"
#include "data/tokenizers/tokenizer_files.h"
#include "formats/codec/mx_tensor.h"
#include "interop/export.h"
#include "kernels/choose/make_backend.h"
#include "program/models/import.h"
#include "program/models/trained_model.h"
#include "program/records/model_files.h"
#include "program/records/run_name.h"
#include "train/checkpoint.h"

namespace mxtape {
namespace {

namespace fs = std::filesystem;

/// Q(W) of the layers that round their weights, by the parameter's name.
std::map<std::string, std::vector<float>> rounded_weights(const CheckpointFile& checkpoint) {
  const CheckpointHeader& header = checkpoint.header();
  const Recipe& recipe = header.recipe;
  const auto backend = make_backend("cpu");
  const auto model = make_model(*backend, recipe.model, precision_plan(recipe, header.step), recipe.seed);
  checkpoint.read_parameters(*backend, model->parameters());
  const PassKey pass{.seed = recipe.seed, .step = std::uint32_t(header.step * recipe.train.passes())};
  std::map<std::string, std::vector<float>> rounded;
  for (const LinearWeight& weight : model->linear_weights()) {
    if (weight.quant.fprop_w.is_identity()) continue;
    require(!weight.tied, ExitCode::usage,
            "--weights rounded: layer '{}' rounds the table that the embedding reads as it is, so one tensor "
            "cannot be both; want --weights master, or a model with model.tied_head = false",
            weight.layer);
    require(weight.quant.fprop_rotation.size == 0, ExitCode::usage,
            "--weights rounded: layer '{}' rotates x and W before it rounds them, so its numbers are no "
            "weights of another program; want --weights master",
            weight.layer);
    const MxTensor t =
        pack_weight(*backend, weight.parameter,
                    use_of(weight.parameter, weight.quant, weight.tensor_id, pass, backend->gemm_kernels()));
    rounded[weight.parameter.name] = unpacked(*backend, t);
  }
  require(!rounded.empty(), ExitCode::usage,
          "--weights rounded: every layer of this model multiplies by f32 weights at step {}; want --weights "
          "master",
          header.step);
  return rounded;
}

/// The files that came with the model, if they are of the checkpoint's tokenizer.
TokenizerFiles tokenizer_files_of(const CheckpointHeader& header, const fs::path& checkpoint) {
  const fs::path folder = folder_of_model_files(checkpoint);
  TokenizerFiles files{header.tokenizer, folder, model_files_in(folder)};
  bool same = false;
  try {
    same = read_tokenizer(folder) == header.tokenizer;
  } catch (const Error& e) {  // no tokenizer, or that of another program
    if (e.code() == ExitCode::resource) throw;
  }
  // How to sample goes along in any case.
  if (!same)
    std::erase_if(files.names, [](const std::string& name) { return name != generation_config_name; });
  return files;
}

}  // namespace

ExportReport export_model(const ExportRequest& request) {
  require(request.form == ExportForm::hf || (!request.shard_bytes && !request.vocabulary), ExitCode::usage,
          "{}: only with --to hf; the other forms are one file with the whole table",
          request.vocabulary ? "--vocabulary" : "--shard-size");
  const fs::path source = checkpoint_of(request.run);
  const CheckpointFile checkpoint(source);
  const CheckpointHeader& header = checkpoint.header();
  std::map<std::string, std::vector<float>> rounded;
  if (request.weights == ExportWeights::rounded) rounded = rounded_weights(checkpoint);
  const WeightSource weights = [&](const std::string& name) {
    const auto found = rounded.find(name);
    return found == rounded.end() ? checkpoint.file().read_f32("parameters/" + name) : found->second;
  };
  const ExportOptions options{.type = request.type,
                              .shard_bytes = request.shard_bytes.value_or(ExportOptions{}.shard_bytes),
                              .vocabulary = request.vocabulary,
                              .progress = request.progress};
  ExportReport report{source, header.step, ""};
  if (request.form == ExportForm::safetensors) {
    std::vector<std::pair<std::string, Shape>> shapes;
    const std::string group = "parameters/";
    for (const auto& info : checkpoint.file().datasets())
      if (info.name.starts_with(group))
        shapes.emplace_back(info.name.substr(group.size()), shape_of(info.dims));
    report.bytes = export_plain_file(request.out, shapes, weights, options);
    return report;
  }
  ModelFacts facts = facts_of(header.recipe.model);
  recall_import(header.lineage, facts);
  report.architecture = facts.architecture;
  report.bytes =
      request.form == ExportForm::llmc
          ? export_llmc_file(request.out, facts, weights, options)
          : export_hf_folder(request.out, facts, weights, tokenizer_files_of(header, source), options);
  return report;
}

}  // namespace mxtape
