#include "program/post_training/post_training.h"

#include <algorithm>
#include <cctype>

#include "core/files/in_file.h"
#include "data/hdf5/seal.h"
#include "program/records/lineage.h"
#include "program/records/model_files.h"
#include "program/records/run_log.h"
#include "train/memory/memory_plan.h"
#include "train/trainer.h"

namespace mxtape {
namespace {

namespace fs = std::filesystem;

constexpr double windows_of_a_step = 3;       // forward and two products backward, for each sequence
constexpr double windows_of_a_diffusion = 4;  // a forward pass, and its Gram matrices in double

}  // namespace

std::string folder_name(const std::string& precision) {
  std::string name;
  for (const char c : precision) {
    const bool plain = std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '.';
    if (plain)
      name += c;
    else if (!name.empty() && name.back() != '-')
      name += '-';
  }
  return name;
}

ModelsOfSettings::ModelsOfSettings(const PostTrainingOptions& options)
    : options_(options),
      trained_(load_trained_model(options.run, options.device, GemmChoice::library)),
      data_(read_data_of(trained_, options.data)) {
  const Recipe& recipe = trained_.header.recipe;
  require(
      trained_.packed_as.empty(), ExitCode::usage,
      "{}: a packed model has no f32 weights to start from; take the checkpoint that it was exported from",
      trained_.file.string());
  hash_ = verify_seal(trained_.file);
  const std::int64_t context = recipe.model.context;
  in_file(data_.file, [&] {
    calibration_ = Loader(data_.tokens.train, options.calibration, context, options.seed).at(0);
    all_windows_ = Windows(data_.tokens.validation, context).count();
  });
  windows_ = options.windows ? std::min(options.windows, all_windows_)
                             : validation_windows(recipe.train, all_windows_);
}

PostTraining ModelsOfSettings::subject() const {
  const Recipe& recipe = trained_.header.recipe;
  PostTraining s{.options = options_,
                 .checkpoint = trained_.file.string(),
                 .checkpoint_hash = hash_,
                 .data = data_.file,
                 .data_hash = data_.tokens.hash,
                 .arithmetic = arithmetic_of(trained_.backend->description()),
                 .step = trained_.header.step,
                 .windows = windows_,
                 .all_windows = all_windows_,
                 .context = recipe.model.context,
                 .finetune_batch = recipe.train.batch_size * recipe.train.passes(),
                 .floor = data_.tokens.floor};
  s.options.finetune.learning_rate = finetuning(recipe).optim.learning_rate;
  return s;
}

Recipe ModelsOfSettings::recipe_of(const std::string& precision, Setting setting) const {
  return cast_recipe(trained_.header.recipe, trained_.header.step,
                     {precision, is_of_weights(setting), options_.attention && !is_of_weights(setting)});
}

Recipe ModelsOfSettings::finetuning(const Recipe& target) const {
  return finetuning_recipe(target, trained_.header.step, options_.finetune);
}

void ModelsOfSettings::check(const std::string& precision, Setting setting, PostTraining& subject) {
  const Recipe recipe = recipe_of(precision, setting);
  if (setting == Setting::finetuned) {
    validate(finetuning(recipe));
    subject.finetunes = true;
  }
  if (!is_diffused(setting)) return;
  Model& model = *trained_.model;
  model.set_precision(precision_plan(recipe, trained_.header.step));
  at_place(fmt::format("precision '{}', setting {}", precision, name_of(setting)),
           [&] { layers_to_diffuse(model); });
  const std::int64_t tokens = calibration_.batch * calibration_.time;
  subject.diffusion_bytes = std::max(subject.diffusion_bytes, diffusion_bytes(model, tokens));
  const std::int64_t capacity = trained_.backend->capacity_bytes();
  require(subject.diffusion_bytes <= capacity, ExitCode::resource,
          "--calibration {}: its {} are more than this machine's {}; want fewer windows", calibration_.batch,
          bytes_text(double(subject.diffusion_bytes)), bytes_text(double(capacity)));
  for (const LinearWeight& weight : model.linear_weights()) {
    const bool known = std::ranges::find(subject.tied, weight.layer) != subject.tied.end();
    if (weight.tied && !weight.quant.fprop_w.is_identity() && !known) subject.tied.push_back(weight.layer);
  }
}

std::vector<std::string> ModelsOfSettings::changed(const std::string& precision, Setting setting) const {
  return differences(trained_.header.recipe, recipe_of(precision, setting));
}

double ModelsOfSettings::work(Setting setting) const {
  double windows = double(windows_);
  if (is_diffused(setting)) windows += windows_of_a_diffusion * double(calibration_.batch);
  const TrainConfig& train = trained_.header.recipe.train;
  if (setting == Setting::finetuned)
    windows += windows_of_a_step * double(options_.finetune.steps * train.batch_size * train.passes());
  return windows;
}

double ModelsOfSettings::bits_per_weight() {
  double bits = 0, numbers = 0;
  for (const LinearWeight& weight : trained_.model->linear_weights()) {
    bits += double(weight.parameter.value.count()) * weight.quant.fprop_w.bits_per_element();
    numbers += double(weight.parameter.value.count());
  }
  return bits / numbers;
}

double ModelsOfSettings::loss(Model& model, const PassKey& pass,
                              const std::function<void(double)>& progress) {
  return evaluate(
             *trained_.backend, model, data_.tokens.validation,
             {.windows = windows_,
              .batch_size = trained_.header.recipe.train.batch_size,
              .pass = pass,
              .progress = [&](std::int64_t done, std::int64_t all) { progress(double(done) / double(all)); }})
      .loss;
}

Measurement ModelsOfSettings::measure(const std::string& precision, Setting setting,
                                      const std::function<void(double)>& progress) {
  Model& model = *trained_.model;
  Measurement m{.precision = precision, .setting = setting, .changed = changed(precision, setting)};
  Recipe recipe = recipe_of(precision, setting);
  recipe.data.file = data_.file;
  model.set_precision(precision_plan(recipe, trained_.header.step));
  m.bits = bits_per_weight();
  try {
    if (is_diffused(setting))
      measure_diffused(m, recipe, progress);
    else if (setting == Setting::finetuned)
      measure_finetuned(m, recipe, progress);
    else
      m.loss = loss(model, trained_.next_pass(), progress);
  } catch (const Error& e) {
    if (e.code() != ExitCode::diverged) throw;
    m.failure = e.what();
  }
  if (is_diffused(setting))
    CheckpointFile(trained_.file).read_parameters(*trained_.backend, model.parameters());
  return m;
}

void ModelsOfSettings::measure_diffused(Measurement& m, const Recipe& recipe,
                                        const std::function<void(double)>& progress) {
  Backend& backend = *trained_.backend;
  Model& model = *trained_.model;
  const double share = 1 - double(windows_) / work(m.setting);
  m.layers = diffuse_weights(
      backend, model, calibration_, trained_.next_pass(),
      {.damping = options_.damping,
       .progress = [&](std::size_t done, std::size_t all) { progress(share * double(done) / double(all)); }});
  backend.trim();
  m.loss = loss(model, trained_.next_pass(), [&](double done) { progress(share + (1 - share) * done); });
  if (!options_.keep) return;
  const CheckpointHeader header = header_of(m, recipe);
  AdamW optimizer(backend, model.parameters(), recipe.optim);
  const auto moment = [&](std::size_t i, Moment which) {
    return which == Moment::m ? optimizer.m(i) : optimizer.v(i);
  };
  // An imported model has none.
  if (trained_.header.step > recipe.optim.start)
    CheckpointFile(trained_.file)
        .read_optimizer(model.parameters(),
                        [&](std::size_t i, Moment which, const std::vector<float>& values) {
                          backend.upload(moment(i, which), values.data());
                        });
  keep(m, header.recipe,
       [&](const fs::path& file) { write_checkpoint(file, header, backend, model.parameters(), moment); });
}

void ModelsOfSettings::measure_finetuned(Measurement& m, const Recipe& recipe,
                                         const std::function<void(double)>& progress) {
  const double share = 1 - double(windows_) / work(m.setting);
  const CheckpointHeader header = header_of(m, finetuning(recipe));
  Trainer trainer(*trained_.backend, header.recipe, data_.tokens);
  trainer.load(CheckpointFile(trained_.file));
  trainer.set_lineage(header.lineage);
  for (std::int64_t done = 0; !trainer.finished();
       progress(share * double(++done) / double(options_.finetune.steps)))
    trainer.step();
  trained_.backend->trim();
  m.loss =
      loss(trainer.model(), trainer.next_pass(), [&](double done) { progress(share + (1 - share) * done); });
  if (!options_.keep) return;
  keep(m, header.recipe, [&](const fs::path& file) { trainer.save(file); });
}

void ModelsOfSettings::keep(Measurement& m, const Recipe& recipe,
                            const std::function<void(const fs::path&)>& write) const {
  const fs::path file = options_.out / (recipe.name + ".h5");
  fs::remove(file);  // of an attempt without a result
  write(file);
  copy_model_files(folder_of_model_files(trained_.file), options_.out);
  m.kept = file.string();
}

CheckpointHeader ModelsOfSettings::header_of(const Measurement& m, Recipe recipe) const {
  const CheckpointHeader& trained = trained_.header;
  recipe.name = fmt::format("{}-{}", folder_name(m.precision), name_of(m.setting));
  Turn turn{.step = trained.step, .parent = trained.recipe.name, .hash = hash_};
  if (m.setting == Setting::finetuned) turn.fresh = {"schedule"};
  if (is_diffused(m.setting))
    turn.changed.push_back(
        fmt::format("weights: error diffusion on {} windows of the training split of {}, seed {}, damping {}",
                    options_.calibration, data_.file, options_.seed, options_.damping));
  for (const auto& change : differences(trained.recipe, recipe))
    if (!change.starts_with("name") && !change.starts_with("data.file")) turn.changed.push_back(change);
  return {trained.step, recipe, trained.tokenizer, data_.tokens.hash, with_turn(trained.lineage, turn)};
}

}  // namespace mxtape
