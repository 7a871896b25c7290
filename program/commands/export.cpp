#include "program/models/export.h"
#include "core/current_error.h"
#include "core/text/program_name.h"
#include "data/hdf5/seal.h"
#include "program/models/cast.h"
#include "program/models/trained_model.h"
#include "program/records/run_name.h"
#include "program/show/command.h"
#include "program/show/progress.h"
#include "train/checkpoint.h"
#include "train/memory/memory_plan.h"

namespace mxtape {
namespace {

namespace fs = std::filesystem;

struct Arguments {
  std::string run, out, to, type, weights;
  Cast cast;
  double shard_size = 5;  ///< GB
  std::int64_t vocabulary = 0;
  bool packed = false, force = false;
};

/// Beside the checkpoints folder of a run, else beside the checkpoint.
fs::path file_beside(const fs::path& checkpoint, std::int64_t step) {
  const fs::path folder = checkpoint.parent_path();
  return (folder.filename() == "checkpoints" ? folder.parent_path() : folder) /
         fmt::format("packed_step_{:08}.h5", step);
}

/// On a screen "packing 3/24 layers, 0m04s to go".
auto progress_of(const Given& given, const char* doing, const char* what) {
  return [=, line = std::make_shared<Line>(stdout, std::chrono::milliseconds(0), !given.json)](auto done,
                                                                                               auto all) {
    if (done == all) return line->clear();
    line->draw(
        fmt::format("{} {}/{} {}, {} to go", doing, done, all, what, line->eta(double(done) / double(all))));
  };
}

/// For another program.
Report run_foreign(const Arguments& arguments, const Given& given) {
  constexpr std::string_view forms[]{"hf", "compressed-tensors", "llmc", "gguf", "safetensors"};
  const auto form = ExportForm(std::ranges::find(forms, arguments.to) - forms);
  const bool compressed = form == ExportForm::compressed, folder = compressed || form == ExportForm::hf;
  require(!arguments.out.empty(), ExitCode::usage, "export: --to {} wants a name: -o {}", arguments.to,
          folder ? "FOLDER" : "FILE");
  const fs::path source = checkpoint_of(arguments.run);
  if (!folder) require_output(arguments.out, {source.string()}, arguments.force);
  ExportRequest request{.run = source.string(), .out = arguments.out, .form = form};
  // transformers computes in the type of the file. Of codes it fails to in f32.
  const std::string type = given("--dtype") ? arguments.type : compressed ? "bf16" : "f32";
  if (type != "f32") request.type = type == "f16" ? TensorType::f16 : TensorType::bf16;
  if (given("--weights")) request.weights = ExportWeights(arguments.weights == "rounded");
  if (given("--shard-size")) request.shard_bytes = std::uint64_t(arguments.shard_size * 1e9);
  if (arguments.vocabulary) request.vocabulary = arguments.vocabulary;
  request.progress = progress_of(given, "writing", "tensors");
  const ExportReport report = export_model(request);
  Report out;
  for (const auto& note : report.notes) out.line("note        {}", note);
  out.line("checkpoint  {}, step {}", report.checkpoint.string(), report.step);
  out.line("written     {}{}, {} weights in {}, {}", arguments.out,
           report.architecture.empty() ? "" : ": " + report.architecture, report.weights, type,
           bytes_text(double(report.bytes)));
  out.put("checkpoint", report.checkpoint.string(), "step", report.step, "to", arguments.to, "out",
          arguments.out, "architecture", report.architecture, "dtype", type, "weights", report.weights,
          "bytes", report.bytes, "notes", report.notes);
  return out;
}

Report run(const Arguments& arguments, const Given& given) {
  require(arguments.packed == arguments.to.empty(), ExitCode::usage,
          "export: say in which form, one of: --packed, weights in the codes of their formats, for mxtape; "
          "--to hf, compressed-tensors, gguf, llmc or safetensors, for other programs");
  if (!arguments.packed) return run_foreign(arguments, given);
  check_attention(arguments.cast.attention, arguments.cast.weights_only, {arguments.cast.precision});
  (void)arguments.cast.bits_per_element();  // a misspelt format costs no time
  const fs::path source = checkpoint_of(arguments.run);
  const CheckpointHeader trained = CheckpointFile(source).header();
  const std::string out = arguments.out.empty() ? file_beside(source, trained.step).string() : arguments.out;
  require_output(out, {source.string(), arguments.cast.precision}, arguments.force);

  PackedHeader header{trained, arguments.cast.text(), verify_seal(source)};
  header.model.recipe = cast_recipe(trained.recipe, trained.step, arguments.cast);
  const TrainedModel loaded = load_trained_model(source.string(), "cpu", GemmChoice::library);
  loaded.model->set_precision(precision_plan(header.model.recipe, trained.step));
  write_packed_model(out, header, *loaded.backend, *loaded.model, loaded.next_pass(),
                     progress_of(given, "packing", "layers"));

  try {
    const PackedModelFile written(out);
    const std::uint64_t bytes = fs::file_size(out);
    Report report;
    report.line("checkpoint  {}, step {}\nprecision   {}\n", source.string(), trained.step, header.precision);
    report.put("checkpoint", source.string(), "step", trained.step, "packed", out, "packed_precision",
               header.precision, "bytes", bytes);
    put_packed_table(report, written);
    report.line("file    {}, {}", out, bytes_text(double(bytes)));
    return report;
  } catch (const std::exception&) {
    const Error error = current_error();
    fail(error.code(), "{}; {} is written and whole, `{} info` prints its table", error.what(), out,
         program_name());
  }
}

Options options(Arguments& a) {
  return {
      {"RUN", &a.run, run_name_help},
      {"--packed", &a.packed,
       "the weights of linear layers as codes and scales, everything else in f32 (docs/packed.md)"},
      {"--to", &a.to,
       "hf: for transformers, a folder; compressed-tensors: the same, with codes of four bits; gguf: for "
       "llama.cpp; llmc: for llm.c; safetensors: mxtape's names",
       one_of("hf compressed-tensors gguf llmc safetensors")},
      {"--dtype", &a.type, "default: f32, of compressed-tensors bf16", one_of("f32 bf16 f16").needs("--to")},
      {"--weights", &a.weights,
       "master: the f32 weights; rounded: what the forward pass multiplied by. Default: master; of gguf and "
       "compressed-tensors rounded, where the run rounds",
       one_of("master rounded").needs("--to")},
      {"--vocabulary", &a.vocabulary, "of folders: keep so many rows of the table", from(1).needs("--to")},
      {"--shard-size", &a.shard_size, "of folders: most GB of a file", within(1e-6, 1e9).needs("--to")},
      {"--precision", &a.cast.precision, precision_help, needs("--packed")},
      {"--weights-only", &a.cast.weights_only, "leave the activations in f32", needs("--packed")},
      {"--attention", &a.cast.attention, attention_help, needs("--packed")},
      {"-o,--out", &a.out,
       "the file or folder to write; default of --packed: packed_step_<8 digits>.h5 in the run's folder"},
      {"--force", &a.force, "write over a file that is there"}};
}

}  // namespace

Command commands::export_() {
  return {"export", "Write a trained model for other programs, or with its weights packed in their formats",
          with(options, run)};
}

}  // namespace mxtape
