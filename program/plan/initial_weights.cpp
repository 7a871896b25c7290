#include "program/plan/initial_weights.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "core/files/atomic_file.h"
#include "core/files/in_file.h"
#include "core/files/random_access.h"
#include "core/files/status.h"
#include "core/text/program_name.h"
#include "data/content_hash.h"
#include "kernels/observers/dry_backend.h"
#include "program/models/import.h"
#include "program/models/trained_model.h"
#include "program/records/run_name.h"
#include "recipes/knobs.h"
#include "train/checkpoint.h"

namespace mxtape {
namespace {

namespace fs = std::filesystem;

bool is_hdf5_file(const fs::path& path) {
  std::error_code unknown;
  constexpr std::string_view signature = "\x89HDF\r\n\x1a\n";
  return fs::is_regular_file(path, unknown) && RandomAccessFile(path).beginning(8) == signature;
}

/// Whether a model can take a table with fewer or more rows than its own has.
bool takes_rows(const std::string& name, const Shape& here, const Shape& there) {
  if (here.rank != 2 || there.rank != 2 || here[1] != there[1]) return false;
  const bool table = name == "tokens.weight" || name == "head.weight";
  return (table && here[0] > there[0]) || (name == "positions.weight" && here[0] < there[0]);
}

}  // namespace

InitialWeights::InitialWeights(const std::string& init) : init_(init), file_(init) {
  std::error_code unknown;
  const bool folder = fs::is_directory(file_, unknown);
  at_place("train.init", [&] {
    if (folder) {
      const bool run = !list_checkpoints(file_).empty(), foreign = fs::exists(file_ / "config.json", unknown);
      require(
          run || foreign, ExitCode::data,
          "{}: holds neither checkpoints nor a config.json; want a run's folder, or a Hugging Face folder",
          init);
      run ? open_checkpoint() : open_foreign();
    } else if (fs::exists(file_, unknown)) {
      is_hdf5_file(file_) ? open_checkpoint() : open_foreign();
    } else {
      const auto at = init.rfind('@');
      require(at != std::string::npos && fs::is_directory(init.substr(0, at), unknown), ExitCode::data,
              "{}: nothing of that name; want a run's folder, RUN@STEP, a checkpoint, a Hugging Face folder, "
              "or llm.c's model.bin",
              init);
      open_checkpoint();
    }
  });
}

void InitialWeights::open_checkpoint() {
  file_ = checkpoint_of(init_);
  const auto checkpoint = std::make_shared<const CheckpointFile>(file_);
  const CheckpointHeader& header = checkpoint->header();
  const fs::path folder = fs::absolute(file_).parent_path();
  if (folder.filename() == "checkpoints") folder_ = folder.parent_path();
  name_ = header.recipe.name, step_ = header.step;
  model_ = header.recipe.model, tokenizer_ = header.tokenizer;
  lineage_ = header.lineage;
  constexpr std::string_view group = "parameters/";
  for (const auto& info : checkpoint->file().datasets())
    if (info.name.starts_with(group))
      tensors_.push_back({info.name.substr(group.size()), shape_of(info.dims),
                          [checkpoint, name = info.name](const TensorSink& sink) {
                            sink(checkpoint->file().read_f32(name));
                          }});
}

void InitialWeights::open_foreign() {
  ImportedModel foreign = open_foreign_model(file_);
  std::error_code unknown;
  if (fs::is_directory(file_, unknown)) folder_ = file_;
  const fs::path whole = fs::absolute(file_).lexically_normal();
  name_ = (whole.has_filename() ? whole : whole.parent_path()).filename().string();
  model_ = foreign.config();
  tokenizer_ = tokenizer_of_source(file_, foreign);
  lineage_ = with_import("", foreign, whole);
  notes_ = foreign.notes;
  if (!foreign.unread.empty())
    notes_.push_back(fmt::format("keys of its config that mxtape does not know and did not read: {}",
                                 fmt::join(foreign.unread, ", ")));
  // They read from what the imported model holds open.
  for (TensorInParts& tensor : foreign.tensors)
    tensors_.push_back(
        {std::move(tensor.name), tensor.shape,
         [files = foreign.files, read = std::move(tensor.read)](const TensorSink& sink) { read(sink); }});
}

std::string InitialWeights::text() const {
  return step_ < 0 ? fmt::format("{}, a model from elsewhere", file_.string())
                   : fmt::format("{}, step {} of {}", file_.string(), step_, name_);
}

void InitialWeights::check_folder(const fs::path& run) const {
  std::error_code unknown;
  require(
      !fs::equivalent(folder_, run, unknown), ExitCode::usage,
      "train.init: {} is the run's own folder; give the run a --name of its own, or --resume auto to go on",
      run.string());
}

void InitialWeights::check_tokens(const TokenFile& data, const std::string& data_file) {
  const bool unknown = tokenizer_.kind() == Tokenizer::Kind::ids;
  if (!unknown || data.tokenizer.kind() == Tokenizer::Kind::ids) {
    const std::string option = step_ < 0 ? "--tokenizer " : "--tokenizer-of ";
    return require_same_tokenizer(tokenizer_, file_, option + shell_quoted(file_.string()), data, data_file);
  }
  require(data.tokenizer.size() <= model_.vocabulary, ExitCode::data,
          "{}: its tokenizer ({}) has more tokens than train.init = \"{}\" knows, {}; want the one that "
          "those weights were trained with",
          data_file, data.tokenizer.text(), init_, model_.vocabulary);
  notes_.push_back(fmt::format("no tokenizer came with the weights: that of {} ({}) is taken to be theirs",
                               data_file, data.tokenizer.text()));
}

std::string InitialWeights::content_hash(const ModelConfig& here) const {
  DryBackend nowhere;
  Recipe recipe;
  recipe.model = here;
  return load(nowhere, *make_model(nowhere, here, precision_plan(recipe, 0), recipe.seed));
}

std::string InitialWeights::load(Backend& backend, Model& model) const {
  ContentHash hash;
  const auto parameters = model.parameters();
  for (Parameter* const parameter : parameters) {
    const auto found = std::ranges::find(tensors_, parameter->name, &TensorInParts::name);
    require(found != tensors_.end(), ExitCode::data, "{}: no tensor '{}', which the model has",
            file_.string(), parameter->name);
    const Shape &here = parameter->value.shape(), &there = found->shape;
    require(here == there || takes_rows(parameter->name, here, there), ExitCode::data,
            "{}: '{}' is {}, the model wants {}", file_.string(), parameter->name, there.text(), here.text());
    const std::string head = fmt::format("{} {}\n", found->name, there.text());
    hash.add(std::as_bytes(std::span(head)));
    std::int64_t done = 0;
    const std::int64_t wanted = std::min(here.count(), there.count());
    found->read([&](std::span<const float> part) {
      hash.add(std::as_bytes(part));
      const std::int64_t count = std::min<std::int64_t>(std::ssize(part), wanted - done);
      if (count > 0) backend.upload(parameter->value.part(done, {count}), part.data());
      done += std::max<std::int64_t>(count, 0);
    });
    require(done == wanted, ExitCode::data, "{}: '{}' ended after {} numbers, want {}", file_.string(),
            found->name, done, wanted);
    parameter->written(1);  // as read_parameters() leaves them at step 0
  }
  require(parameters.size() == tensors_.size(), ExitCode::data, "{}: {} tensors, the model has {}",
          file_.string(), tensors_.size(), parameters.size());
  return hash.digits();
}

Turn InitialWeights::turn(const std::string& hash, const ModelConfig& here) const {
  Recipe before, after;
  before.model = model_;
  after.model = here;
  return {.parent = name_, .hash = hash, .changed = differences(before, after), .init = true};
}

std::string initial_hash_of(const fs::path& run) {
  const fs::path file = run / "parent.json";
  if (!is_there(file)) return "";
  const auto json = nlohmann::json::parse(read_whole_text(file), nullptr, false);
  require(json.is_object(), ExitCode::data, "{}: is not what a run writes there", file.string());
  return json.value("event", "") == "init" ? json.value("hash", "") : "";
}

}  // namespace mxtape
