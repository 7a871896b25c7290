#include "program/models/export.h"

#include <map>

#include "autograd/fixed_weight.h"
#include "data/tokenizers/tokenizer_files.h"
#include "formats/codec/mx_tensor.h"
#include "interop/export.h"
#include "program/models/import.h"
#include "program/models/trained_model.h"
#include "program/records/model_files.h"
#include "program/records/run_name.h"
#include "train/checkpoint.h"

namespace mxtape {
namespace {

namespace fs = std::filesystem;

/// The weights that layers round, by the parameter's name; a tied head's table as a head of its own.
std::map<std::string, MxTensor> rounded_weights(const TrainedModel& trained) {
  std::map<std::string, MxTensor> codes;
  for (const LinearWeight& weight : trained.model->linear_weights()) {
    if (weight.quant.fprop_w.is_identity()) continue;
    require(weight.quant.fprop_rotation.size == 0, ExitCode::usage,
            "layer '{}' rotates x and W before it rounds them, so its numbers are no weights of another "
            "program; want --weights master",
            weight.layer);
    codes[weight.tied ? weight.layer + ".weight" : weight.parameter.name] =
        pack_weight(*trained.backend, weight.parameter,
                    use_of(weight.parameter, weight.quant, weight.tensor_id, trained.next_pass(),
                           trained.backend->gemm_kernels()));
  }
  return codes;
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
  const bool gguf = request.form == ExportForm::gguf, compressed = request.form == ExportForm::compressed;
  require(request.form == ExportForm::hf || compressed || (!request.shard_bytes && !request.vocabulary),
          ExitCode::usage, "{}: only with --to hf or compressed-tensors, which write folders",
          request.vocabulary ? "--vocabulary" : "--shard-size");
  const fs::path source = checkpoint_of(request.run);
  const CheckpointFile checkpoint(source);
  const CheckpointHeader& header = checkpoint.header();
  std::optional<TrainedModel> trained;
  std::map<std::string, MxTensor> rounded;
  if (request.weights ? request.weights == ExportWeights::rounded : gguf || compressed)
    rounded =
        rounded_weights(trained.emplace(load_trained_model(source.string(), "cpu", GemmChoice::library)));
  require(request.weights != ExportWeights::rounded || !rounded.empty(), ExitCode::usage,
          "--weights rounded: every layer of this model multiplies by f32 weights at step {}; want --weights "
          "master",
          header.step);
  const CodeSource codes = [&](const std::string& name) {
    const auto found = rounded.find(name);
    return found == rounded.end() ? nullptr : &found->second;
  };
  std::vector<std::pair<std::string, Shape>> shapes;
  const std::string group = "parameters/";
  for (const auto& info : checkpoint.file().datasets())
    if (info.name.starts_with(group))
      shapes.emplace_back(info.name.substr(group.size()), shape_of(info.dims));
  if (const MxTensor* const head = codes("head.weight"); head && header.recipe.model.tied_head)
    shapes.emplace_back("head.weight", Shape{head->rows, head->cols});
  const WeightSource weights = [&, done = std::int64_t(0)](const std::string& name) mutable {
    if (request.progress) request.progress(++done, std::ssize(shapes));
    const MxTensor* const t = codes(name);
    return t ? unpacked(*trained->backend, *t) : checkpoint.file().read_f32("parameters/" + name);
  };
  const PrecisionPlan plan = precision_plan(header.recipe, header.step);
  const ExportOptions options{.type = request.type,
                              .shard_bytes = request.shard_bytes.value_or(ExportOptions{}.shard_bytes),
                              .vocabulary = request.vocabulary,
                              .compressed = compressed,
                              .codes = codes,
                              .precision = &plan};
  ExportReport report{source, header.step, "", rounded.empty() ? "master" : "rounded"};
  if (request.form == ExportForm::safetensors) {
    report.bytes = export_plain_file(request.out, shapes, weights, options);
    return report;
  }
  ModelFacts facts = facts_of(header.recipe.model);
  recall_import(header.lineage, facts);
  facts.tied = facts.tied && !codes("head.weight");  // the embedding's table is not rounded
  report.architecture = facts.architecture;
  report.bytes = gguf ? export_gguf_file(request.out, facts, weights, header.tokenizer, options, report.notes)
                 : request.form == ExportForm::llmc
                     ? export_llmc_file(request.out, facts, weights, options)
                     : export_hf_folder(request.out, facts, weights, tokenizer_files_of(header, source),
                                        options, report.notes);
  return report;
}

}  // namespace mxtape
