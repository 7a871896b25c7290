#include <chrono>
#include <cstdio>

#include "core/errors/current_error.h"
#include "core/text/program_name.h"
#include "data/hdf5/seal.h"
#include "kernels/choose/make_backend.h"
#include "program/cast.h"
#include "program/command.h"
#include "program/export.h"
#include "program/progress.h"
#include "program/run_name.h"
#include "program/show/packed_table.h"
#include "train/checkpoint.h"
#include "train/memory/memory_plan.h"

namespace mxtape {
namespace {

namespace fs = std::filesystem;

struct Arguments {
  std::string run, out, to, type = "f32", weights = "master";
  Cast cast;
  double shard_size = 5;  ///< GB
  std::int64_t vocabulary = 0;
  bool packed = false, force = false, json = false;
  bool has_cast = false, has_foreign = false;  ///< options of the other form were given
  bool has_shards = false;
};

/// Beside the checkpoints folder of a run, else beside the checkpoint.
fs::path file_beside(const fs::path& checkpoint, std::int64_t step) {
  const fs::path folder = checkpoint.parent_path();
  return (folder.filename() == "checkpoints" ? folder.parent_path() : folder) /
         fmt::format("packed_step_{:08}.h5", step);
}

/// A line that is written over, where somebody looks: "packing 3/24 layers, 0m04s to go".
class LayerProgress {
 public:
  LayerProgress(bool shown, const char* doing, const char* what)
      : shown_(shown && is_screen(stdout)), doing_(doing), what_(what) {}
  void operator()(std::size_t done, std::size_t all) const {
    if (!shown_) return;
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count();
    fmt::print("\r\033[K");
    if (done < all)
      fmt::print("{} {}/{} {}, {} to go", doing_, done, all, what_,
                 duration_text(seconds / double(done) * double(all - done)));
    std::fflush(stdout);
  }

 private:
  bool shown_;
  const char *doing_, *what_;
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

/// For another program.
void run_foreign(const Arguments& arguments) {
  require(!arguments.has_cast, ExitCode::usage,
          "export: --precision, --weights-only and --attention are of --packed; --to writes --weights master "
          "or rounded");
  require(!arguments.out.empty(), ExitCode::usage, "export: --to {} wants a name: -o {}", arguments.to,
          arguments.to == "hf" ? "FOLDER" : "FILE");
  const ExportForm form = arguments.to == "hf"     ? ExportForm::hf
                          : arguments.to == "llmc" ? ExportForm::llmc
                                                   : ExportForm::safetensors;
  const fs::path source = checkpoint_of(arguments.run);
  if (form != ExportForm::hf) {
    require_output(arguments.out, {source.string()});
    require(arguments.force || !fs::exists(arguments.out), ExitCode::usage,
            "{}: is there already; --force writes over it, -o FILE writes another one", arguments.out);
  }
  ExportRequest request{
      .run = source.string(),
      .out = arguments.out,
      .form = form,
      .weights = arguments.weights == "rounded" ? ExportWeights::rounded : ExportWeights::master,
      .type = arguments.type == "f32"   ? TensorType::f32
              : arguments.type == "f16" ? TensorType::f16
                                        : TensorType::bf16};
  if (arguments.has_shards) request.shard_bytes = std::uint64_t(arguments.shard_size * 1e9);
  if (arguments.vocabulary) request.vocabulary = arguments.vocabulary;
  request.progress = [progress = LayerProgress(!arguments.json, "writing", "tensors")](std::int64_t done,
                                                                                       std::int64_t all) {
    progress(std::size_t(done), std::size_t(all));
  };
  const ExportReport report = export_model(request);
  Report out;
  out.line("checkpoint  {}, step {}", report.checkpoint.string(), report.step);
  out.line("written     {}{}, {} weights in {}, {}", arguments.out,
           report.architecture.empty() ? "" : ": " + report.architecture, arguments.weights, arguments.type,
           bytes_text(double(report.bytes)));
  out.put("checkpoint", report.checkpoint.string(), "step", report.step, "to", arguments.to, "out",
          arguments.out, "architecture", report.architecture, "dtype", arguments.type, "weights",
          arguments.weights, "bytes", report.bytes);
  out.print(arguments.json);
}

void run(const Arguments& arguments) {
  require(arguments.packed == arguments.to.empty(), ExitCode::usage,
          "export: say in which form, one of: --packed, weights in the codes of their formats, for mxtape; "
          "--to hf, "
          "llmc or safetensors, for other programs");
  if (!arguments.packed) return run_foreign(arguments);
  require(!arguments.has_foreign, ExitCode::usage,
          "export: --dtype, --weights, --vocabulary and --shard-size are of --to; --packed has --precision");
  check_attention(arguments.cast.attention, arguments.cast.weights_only, {arguments.cast.precision});
  (void)arguments.cast.bits_per_element();  // a misspelt format costs no time
  const fs::path source = checkpoint_of(arguments.run);
  const CheckpointFile checkpoint(source);
  const CheckpointHeader& trained = checkpoint.header();
  const std::string out = arguments.out.empty() ? file_beside(source, trained.step).string() : arguments.out;
  require_output(out, {source.string()});
  require(arguments.force || !fs::exists(out), ExitCode::usage,
          "{}: is there already; --force writes over it, -o FILE writes another one", out);

  PackedHeader header{trained, arguments.cast.text(), verify_seal(source)};
  header.model.recipe = cast_recipe(trained.recipe, trained.step, arguments.cast);
  const Recipe& recipe = header.model.recipe;
  const auto backend = make_backend("cpu");
  const auto model = make_model(*backend, recipe.model, precision_plan(recipe, trained.step), recipe.seed);
  checkpoint.read_parameters(*backend, model->parameters());
  const PassKey pass{.seed = recipe.seed, .step = std::uint32_t(trained.step * recipe.train.passes())};
  write_packed_model(out, header, *backend, *model, pass,
                     LayerProgress(!arguments.json, "packing", "layers"));

  try {
    const PackedModelFile written(out);
    const std::uint64_t bytes = fs::file_size(out);
    Report report;
    report.line("checkpoint  {}, step {}\nprecision   {}\n", source.string(), trained.step, header.precision);
    report.put("checkpoint", source.string(), "step", trained.step, "packed", out, "packed_precision",
               header.precision, "bytes", bytes);
    put_packed_table(report, written);
    report.line("file    {}, {}", out, bytes_text(double(bytes)));
    report.print(arguments.json);
  } catch (const std::exception&) {
    const Error error = current_error();
    fail(error.code(), "{}; {} is written and whole, `{} info` prints its table", error.what(), out,
         program_name());
  }
}

}  // namespace

void add_export_command(CLI::App& app) {
  auto* command = app.add_subcommand(
      "export", "Write a trained model for other programs, or with its weights packed in their formats");
  auto a = std::make_shared<Arguments>();
  command->add_option("RUN", a->run, run_name_help)->required();
  command->add_flag(
      "--packed", a->packed,
      "the weights of linear layers as codes and scales, everything else in f32 (docs/packed.md)");
  command
      ->add_option(
          "--to", a->to,
          "hf: a folder for transformers; llmc: model.bin of llm.c; safetensors: a file with mxtape's names")
      ->check(CLI::IsMember({"hf", "llmc", "safetensors"}));
  auto* type = add_checked(*command, "--dtype", a->type, "of the numbers that --to writes",
                           CLI::IsMember({"f32", "bf16", "f16"}));
  auto* weights =
      add_checked(*command, "--weights", a->weights,
                  "of --to. master: the f32 weights; rounded: what the forward pass multiplied by",
                  CLI::IsMember({"master", "rounded"}));
  auto* vocabulary = command
                         ->add_option("--vocabulary", a->vocabulary,
                                      "of --to hf: keep so many rows of the table, without padding")
                         ->check(whole(1));
  auto* shards = add_checked(*command, "--shard-size", a->shard_size,
                             "of --to hf: most GB of a file of weights", between(1e-6, 1e9));
  auto* precision =
      command->add_option("--precision", a->cast.precision, precision_help)->capture_default_str();
  auto* only = command->add_flag("--weights-only", a->cast.weights_only, "leave the activations in f32");
  auto* attention = command->add_flag("--attention", a->cast.attention, attention_help);
  command->add_option(
      "-o,--out", a->out,
      "the file or folder to write; default of --packed: packed_step_<8 digits>.h5 in the run's folder");
  command->add_flag("--force", a->force, "write over a file that is there");
  add_json_option(*command, a->json);
  command->callback([=] {
    a->has_cast = !precision->empty() || !only->empty() || !attention->empty();
    a->has_shards = !shards->empty();
    a->has_foreign = !type->empty() || !weights->empty() || !vocabulary->empty() || !shards->empty();
    run(*a);
  });
}

}  // namespace mxtape
