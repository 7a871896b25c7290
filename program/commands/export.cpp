#include <chrono>
#include <cstdio>

#include "data/hdf5/seal.h"
#include "kernels/choose/make_backend.h"
#include "program/cast.h"
#include "program/command.h"
#include "program/packed/packed_table.h"
#include "program/progress.h"
#include "program/run_name.h"
#include "train/checkpoint.h"
#include "train/memory/memory_plan.h"

namespace mxtape {
namespace {

namespace fs = std::filesystem;

struct Arguments {
  std::string run, out;
  Cast cast;
  bool packed = false, force = false, json = false;
};

/// Beside the checkpoints folder of a run, else beside the checkpoint.
fs::path file_beside(const fs::path& checkpoint, std::int64_t step) {
  const fs::path folder = checkpoint.parent_path();
  return (folder.filename() == "checkpoints" ? folder.parent_path() : folder) /
         fmt::format("packed_step_{:08}.h5", step);
}

/// A line that is written over, where somebody looks.
class LayerProgress {
 public:
  explicit LayerProgress(bool shown) : shown_(shown && is_screen(stdout)) {}
  void operator()(std::size_t done, std::size_t all) const {
    if (!shown_) return;
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count();
    fmt::print("\r\033[K");
    if (done < all)
      fmt::print("packing {}/{} layers, {} to go", done, all,
                 duration_text(seconds / double(done) * double(all - done)));
    std::fflush(stdout);
  }

 private:
  bool shown_;
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

void run(const Arguments& arguments) {
  require(arguments.packed, ExitCode::usage,
          "export: say in which form; there is one so far: --packed, weights in the codes of their formats");
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
  write_packed_model(out, header, *backend, *model, pass, LayerProgress(!arguments.json));

  const PackedModelFile written(out);
  if (arguments.json) {
    Json json{{"checkpoint", source.string()}, {"step", trained.step}, {"packed", out}};
    json["packed_precision"] = header.precision;
    json["bytes"] = fs::file_size(out);
    put_packed_table(json, written);
    return print_json(json);
  }
  fmt::print("checkpoint  {}, step {}\nprecision   {}\n\n", source.string(), trained.step, header.precision);
  print_packed_table(written);
  fmt::print("file    {}, {}\n", out, bytes_text(double(fs::file_size(out))));
}

}  // namespace

void add_export_command(CLI::App& app) {
  auto* command = app.add_subcommand(
      "export", "Write a trained model with its weights packed in their formats, for sample and eval");
  auto a = std::make_shared<Arguments>();
  command->add_option("RUN", a->run, run_name_help)->required();
  command->add_flag(
      "--packed", a->packed,
      "the weights of linear layers as codes and scales, everything else in f32 (docs/packed.md)");
  command->add_option("--precision", a->cast.precision, precision_help)->capture_default_str();
  command->add_flag("--weights-only", a->cast.weights_only, "leave the activations in f32");
  command->add_flag("--attention", a->cast.attention, attention_help);
  command->add_option("-o,--out", a->out,
                      "the file to write; default: packed_step_<8 digits>.h5 in the run's folder");
  command->add_flag("--force", a->force, "write over a file that is there");
  add_json_option(*command, a->json);
  command->callback([a] { run(*a); });
}

}  // namespace mxtape
