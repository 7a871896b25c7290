#include "core/files/atomic_file.h"
#include "data/hdf5/hash_record.h"
#include "data/hdf5/hdf5.h"
#include "data/hdf5/token_file.h"
#include "kernels/choose/make_backend.h"
#include "kernels/observers/dry_backend.h"
#include "kernels/observers/watch.h"
#include "program/commands/exit_code_names.h"
#include "program/models/tensor_numbers.h"
#include "program/models/trained_model.h"
#include "program/records/run_folder.h"
#include "program/records/run_log.h"
#include "program/records/run_name.h"
#include "program/show/command.h"
#include "train/checkpoint.h"
#include "train/saved/packed_model.h"
#include "train/saved/weight_average.h"

namespace mxtape {
namespace {

namespace fs = std::filesystem;

/// What a look at one file found.
struct Finding {
  std::filesystem::path file;
  std::string content;           ///< "checkpoint of step 6, 84 tensors"; empty if something is wrong
  std::optional<Error> problem;  ///< what is wrong; the message names the file
};

/// `then`: what it means.
void require_finite(std::span<const float> values, const std::string& path, const std::string& name,
                    std::span<const std::int64_t> dims, const char* then = "") {
  const NumbersSeen numbers = numbers_seen(values);
  require(numbers.not_finite() == 0, ExitCode::data,
          "{}: '{}' holds {} numbers that are not finite, the first at {}{}", path, name,
          numbers.not_finite(), indices_text(indices_of(numbers.first_nonfinite, dims)), then);
}

/// A parameter or moment: there, of the model's shape, finite.
void require_sound(const Hdf5Reader& file, const std::string& name, const Shape& shape) {
  const std::string path = file.path().string();
  const auto info = file.info(name);
  const std::vector<std::int64_t> wanted(shape.dims.begin(), shape.dims.begin() + shape.rank);
  require(info.dims == wanted && info.type == "f32", ExitCode::data,
          "{}: '{}' is {} {}, its recipe's model wants f32 {}", path, name, info.type,
          indices_text(info.dims), indices_text(wanted));
  require_finite(file.read_f32(name), path, name, info.dims, "; no run can go on from it");
}

void require_sound_header(const CheckpointHeader& header, const fs::path& path) {
  const Recipe& recipe = header.recipe;
  require(recipe.model.vocabulary >= header.tokenizer.size(), ExitCode::data,
          "{}: its tokenizer has {} tokens, its model knows {}", path.string(), header.tokenizer.size(),
          recipe.model.vocabulary);
  require(header.step >= 0 && header.step <= recipe.train.steps, ExitCode::data,
          "{}: it says that {} of {} steps are done", path.string(), header.step, recipe.train.steps);
}

std::string look_at_checkpoint(const std::shared_ptr<const Hdf5Reader>& opened) {
  const CheckpointFile checkpoint(opened);
  const fs::path path = opened->path();
  const CheckpointHeader& header = checkpoint.header();
  const Recipe& recipe = header.recipe;
  require_sound_header(header, path);
  DryBackend nowhere;  // names and shapes are all that is asked
  const auto model = make_model(nowhere, recipe.model, precision_plan(recipe, header.step), recipe.seed);
  std::size_t count = 0;
  // An import has no moments yet: a run that begins with it has them at 0.
  const bool moments = header.step > 0 || checkpoint.file().has("optimizer");
  for (const Parameter* parameter : model->parameters())
    for (const std::string_view group : groups_of_state) {
      if (!moments && group != "parameters/") continue;
      if (group == average_group && !(parameter->decay && recipe.precision.weight_average > 0)) continue;
      require_sound(checkpoint.file(), fmt::format("{}{}", group, parameter->name), parameter->value.shape());
      ++count;
    }
  const std::size_t found = checkpoint.file().datasets().size();
  require(found == count, ExitCode::data, "{}: {} tensors, its recipe's model has {} {} its moments",
          path.string(), found, count, moments ? "with" : "without");
  return fmt::format("checkpoint of step {}, {} tensors{}", header.step, count,
                     moments ? "" : ", no moments");
}

std::string look_at_packed_model(const std::shared_ptr<const Hdf5Reader>& opened) {
  const PackedModelFile packed(opened);
  const CheckpointHeader& header = packed.header().model;
  require_sound_header(header, opened->path());
  DryBackend nowhere;
  (void)packed.load(nowhere);  // sizes and formats
  const auto cpu = make_backend("cpu");
  const auto rows = packed.rows();
  for (const PackedModelFile::Row& row : rows) {
    const std::vector<float> values =
        row.packed ? unpacked(*cpu, packed.codes_of(row.name)) : opened->read_f32("tensors/" + row.name);
    require_finite(values, opened->path().string(), row.name, row.dims);
  }
  return fmt::format("packed model of step {}, {} tensors in precision {}", header.step, rows.size(),
                     packed.header().precision);
}

std::string look_at_file(const fs::path& path) {
  forget_hashed(path);
  const auto opened = open_sealed(path);
  const Hdf5Reader& file = *opened;
  if (content_of(file) == packed_content) return look_at_packed_model(opened);
  if (file.has_attribute("/", "content")) return look_at_checkpoint(opened);
  if (file.has_attribute("/", "kind"))
    return fmt::format("{}, {}", file.text_attribute("/", "kind"), file.text_attribute("/", "format"));
  require(file.has_attribute("/", "format"), ExitCode::data,
          "{}: its content hash holds, but it is no checkpoint, token file, packed model or packed tensor",
          path.string());
  const TokenFile tokens = TokenFile::read(path, TokenFile::SealIs::verified);
  return fmt::format("token file, {} + {} tokens", tokens.train.count(), tokens.validation.count());
}

std::string look_at_recipe(const fs::path& path) {
  (void)recipe_from_toml(read_whole_text(path), path.string());
  return "recipe";
}

std::string look_at_metrics(const fs::path& path) {
  const RunLog log = read_records(path);
  require(!log.train.empty() || !log.turns.empty(), ExitCode::data, "{}: holds no step", path.string());
  return fmt::format("metrics, {} steps", log.train.size());
}

Finding finding(const fs::path& file, std::string (*look)(const fs::path&)) {
  try {
    return {file, look(file), {}};
  } catch (const Error& e) {
    // Whoever asks whether a file is sound has typed nothing wrong: what its recipe says is the file's.
    return {file, "", Error(e.code() == ExitCode::resource ? e.code() : ExitCode::data, e.what())};
  }
}

std::vector<Finding> look_at_run(const fs::path& run) {
  std::vector<Finding> findings;
  const auto look = [&](const fs::path& file, std::string (*at)(const fs::path&)) {
    Finding found = finding(file, at);
    // A run that goes on deletes its oldest checkpoint when it has a newer one.
    if (!found.problem || fs::exists(file)) findings.push_back(std::move(found));
  };
  const auto checkpoints = list_checkpoints(run);
  const fs::path recipe = run / "recipe.toml", metrics = run / "metrics.jsonl";
  if (checkpoints.empty())
    findings.push_back({run, "",
                        Error(ExitCode::data, fmt::format("{}: holds no checkpoint{}", run.string(),
                                                          fs::exists(recipe) || fs::exists(metrics)
                                                              ? " yet"
                                                              : "; want a run's folder, or a file"))});
  for (const auto& file : checkpoints)
    look(file, [](const fs::path& at) { return look_at_checkpoint(open_sealed(at)); });
  for (const auto& [step, file] : RunPaths(run).earlier_recipes()) look(file, look_at_recipe);
  if (!checkpoints.empty() || fs::exists(recipe)) findings.push_back(finding(recipe, look_at_recipe));
  const bool has_steps = !checkpoints.empty() && step_of_checkpoint(checkpoints.front()).value_or(1) > 0;
  if (has_steps || fs::exists(metrics)) findings.push_back(finding(metrics, look_at_metrics));
  return findings;
}

/// Reads whole what `word` names, and checks everything that it promises: a checkpoint (also RUN@STEP), a
/// token file, a packed tensor; of a run's folder each of its checkpoints, its recipes and its metrics.
/// Changes and locks nothing: the run may be going on.
std::vector<Finding> verify(const std::string& word) {
  if (fs::is_directory(word)) return look_at_run(word);
  try {
    return {finding(checkpoint_of(word), look_at_file)};
  } catch (const Error& e) {
    return {{word, "", e}};
  }
}

struct Arguments {
  std::vector<std::string> words;
};

Report run(const Arguments& arguments, const Given& given) {
  Report out;
  Table files("file; ok; content; code; kind; message");
  std::size_t failed = 0;
  std::optional<Error> first;
  for (const auto& word : arguments.words)
    for (const Finding& found : verify(word)) {
      const ExitCode code = found.problem ? found.problem->code() : ExitCode::ok;
      const std::string file = found.file.string(), message = found.problem ? found.problem->what() : "";
      files.row(file, !found.problem, found.content, int(code), name_of(code), message);
      out.text(found.problem ? "FAILED  " + message + "\n" : "ok      " + file + "  " + found.content + "\n");
      out.show(given.json);  // a large file takes seconds
      if (found.problem && failed++ == 0) first = found.problem;
    }
  out.put("ok", failed == 0, "files", files);
  if (first)
    out.problems.emplace_back(first->code(), fmt::format("verify: {} of {} failed; the first: {}", failed,
                                                         files.rows(), first->what()));
  return out;
}

Options options(Arguments& a) {
  return {{"FILE", &a.words,
           "a checkpoint, RUN@STEP, a token file, a packed model or tensor; or a run's folder, for all its "
           "checkpoints, its recipes and its metrics"}};
}

}  // namespace

Command commands::verify() {
  return {"verify", "Read checkpoints, runs and token files whole, and say of each if anything is wrong",
          with(options, run)};
}

}  // namespace mxtape
