#include <fmt/chrono.h>
#include <sys/stat.h>

#include <cerrno>
#include <cmath>
#include <cstring>

#include "kernels/observers/watch.h"
#include "program/models/cast.h"
#include "program/models/tensor_numbers.h"
#include "program/models/trained_model.h"
#include "program/records/lineage.h"
#include "program/records/run_name.h"
#include "program/show/command.h"
#include "program/show/recipe_json.h"
#include "recipes/text/precision_table.h"
#include "train/checkpoint.h"
#include "train/memory/memory_plan.h"

namespace mxtape {
namespace {

/// Parameters before moments.
void fill(Table& table, const Hdf5Reader& file) {
  auto all = file.datasets();
  std::ranges::stable_partition(all, [](auto& info) { return info.name.starts_with("parameters/"); });
  for (const auto& info : all) {
    const auto values = file.read_f32(info.name);
    const NumbersSeen n = numbers_seen(values);
    table.row(info.name, Value(info.dims, "", indices_text(info.dims)), info.type,
              values.size() * sizeof(float), n.rms, std::max(std::abs(n.min), std::abs(n.max)),
              n.not_finite(),
              n.not_finite() ? fmt::format("{} numbers not finite, left out", n.not_finite()) : "");
  }
}

/// When the file was last written, "2026-11-22 03:00:25 UTC". A checkpoint itself holds no time: equal runs
/// give equal bytes.
std::string written_at(const std::filesystem::path& path) {
  struct stat status {};
  const bool known = ::stat(path.c_str(), &status) == 0;
  require(known, ExitCode::resource, "{}: cannot be looked at: {}", path.string(), std::strerror(errno));
  return fmt::format("{:%Y-%m-%d %H:%M:%S} UTC", fmt::gmtime(status.st_mtime));
}

/// What both kinds of file hold.
void put_model(Report& out, const CheckpointHeader& header, bool packed) {
  const Recipe& recipe = header.recipe;
  const bool of_files = header.tokenizer.kind() == Tokenizer::Kind::subwords;
  out.line("step        {} of {}", header.step, recipe.train.steps);
  out.line("recipe      {}   seed {}", recipe.name, recipe.seed);
  out.line("model       {}: {}", recipe.model.kind, model_text(recipe.model));
  out.line("tokenizer   {}{}", header.tokenizer.text(),
           of_files && !packed ? ", hash " + header.tokenizer.hash() : "");
  out.line("data        {}, hash {}", recipe.data.file, header.data_hash);
  out.put("step", header.step, "steps", recipe.train.steps, "recipe", recipe.name, "seed", recipe.seed,
          "parameters", parameter_count(recipe.model), "tokenizer", header.tokenizer.text());
  if (!packed) out.put("tokenizer_hash", header.tokenizer.hash());
  out.put("data", recipe.data.file, "data_hash", header.data_hash, "lineage",
          parsed(header.lineage.empty() ? "[]" : header.lineage), "keys", recipe_json(recipe));
}

Report info(const std::filesystem::path& path, const CheckpointFile& checkpoint) {
  const CheckpointHeader& header = checkpoint.header();
  const Recipe now = cast_recipe(header.recipe, header.step, {});
  const Value writer(header.written_by, "not known: the file does not say");
  const auto size = std::filesystem::file_size(path);
  const std::string time = written_at(path);
  Report out;
  out.line("checkpoint  {}, {}", path.string(), bytes_text(double(size)));
  out.line("written     {} by {}", time, header.written_by.empty() ? writer.why : header.written_by);
  out.put("checkpoint", path.string(), "bytes", size, "written_at", time, "written_by", writer);
  put_model(out, header, false);
  out.text(lineage_text(header.lineage));
  out.line("precision in force\n{}", precision_table(now));
  out.put("precision", precision_json(now).front());
  fill(out.table("tensors",
                 "name|tensor; shape|shape; dtype|dtype; bytes|bytes|>12; rms|rms|>10.4g; "
                 "largest|largest|>10.4g; not_finite; |~"),
       checkpoint.file());
  return out;
}

Report info(const PackedModelFile& file) {
  const PackedHeader& header = file.header();
  const std::string path = file.file().path().string(), &precision = header.precision;
  const auto size = std::filesystem::file_size(path);
  Report out;
  out.line("packed      {}, {}", path, bytes_text(double(size)));
  out.line("written     by {}", header.model.written_by);
  out.line("from        the checkpoint with content hash {}", header.source_hash);
  out.put("packed", path, "bytes", size, "written_by", header.model.written_by, "source_hash",
          header.source_hash, "packed_precision", precision);
  put_model(out, header.model, true);
  out.line("precision   {}\n{}", precision == "recipe" ? "recipe: as it was trained" : precision,
           precision_table(header.model.recipe));
  out.put("precision", precision_json(header.model.recipe).front());
  put_packed_table(out, file);
  return out;
}

struct Arguments {
  std::string run;
};

Options options(Arguments& a) { return {{"RUN", &a.run, model_name_help}}; }

Report run(const Arguments& a) {
  const auto path = checkpoint_of(a.run);
  const auto file = open_sealed(path);
  return content_of(*file) == packed_content ? info(PackedModelFile(file)) : info(path, CheckpointFile(file));
}

}  // namespace

Command commands::info() {
  return {"info",
          "What a checkpoint or packed model holds: step, recipe, model, precision, and every tensor with "
          "its size",
          with(options, run)};
}

}  // namespace mxtape
