#include "program/plan/run_plan.h"

#include <iterator>

#include "core/text/program_name.h"
#include "program/models/trained_model.h"
#include "program/plan/rollback.h"
#include "program/records/room.h"
#include "program/records/run_name.h"
#include "recipes/text/reader.h"

namespace mxtape {
namespace fs = std::filesystem;
namespace {

constexpr void (*all_stations[])(RunPlan&) = {
    stations::recipe,  stations::data,   stations::devices, stations::folder, stations::beginning,
    stations::settled, stations::device, stations::memory,  stations::disk,   stations::notes};
static_assert(std::size(all_stations) == std::size_t(Station::notes) + 1);

/// A run that goes on has its own checkpoint's [model], and what it began with need not be there any more.
ModelConfig initial_model(RunPlan& plan, const std::string& init) {
  const RunWords& words = plan.words;
  if (plan.model) return *plan.model;
  const fs::path run = run_folder_of(words.recipe, words.overrides);
  const bool goes_on =
      words.resume == "auto" ? !list_checkpoints(run).empty() : !words.resume.empty() && words.resume != "no";
  if (goes_on)
    return CheckpointFile(words.resume == "auto" ? find_checkpoint(run) : fs::path(words.resume))
        .header()
        .recipe.model;
  return plan.begin.weights.emplace(init).model();
}

/// "1742 of 1742 windows every 250 steps, 19% of the run's work".
std::string validation_text(const Recipe& recipe, std::int64_t windows, std::int64_t all) {
  const TrainConfig& train = recipe.train;
  const bool repeated = train.eval_every > 0 && train.eval_every < train.steps;
  return fmt::format("{} of {} windows, {} tokens, {}, {:.2g}% of the run's work", windows, all,
                     windows * recipe.model.context,
                     repeated ? fmt::format("every {} steps", train.eval_every) : "at the end",
                     100 * validation_share(train, windows));
}

}  // namespace

void RunPlan::look(const std::function<void()>& at) {
  if (!rehearses) return at();
  try {
    at();
  } catch (const Error& e) {
    problems.push_back(e);
  }
}

void plan_through(RunPlan& plan, Station last) {
  for (; plan.next <= last && !plan.begin.finished; plan.next = Station(int(plan.next) + 1))
    if (plan.next == Station::recipe)
      stations::recipe(plan);
    else
      plan.look([&] { all_stations[int(plan.next)](plan); });
}

void stations::recipe(RunPlan& plan) {
  const RunWords& words = plan.words;
  require_sense(words);
  if (words.from.empty()) {
    plan.recipe = read_run_recipe(words.recipe, words.overrides,
                                  [&](const std::string& init) { return initial_model(plan, init); });
  } else if (auto own = recipe_of_own_checkpoint(words)) {
    plan.recipe = *std::move(own);
  } else {
    plan.branch.emplace(plan_branch(words, plan.recipe));
  }
}

void stations::data(RunPlan& plan) {
  const Recipe& recipe = plan.recipe;
  require(plan.data || !recipe.data.file.empty(), ExitCode::usage,
          "recipe '{0}': data.file is not set; make a token file with `{1} prepare` or `{1} corpus`",
          recipe.name, program_name());
  if (!plan.data) plan.data = std::make_shared<const TokenFile>(TokenFile::read(recipe.data.file));
  const TokenFile& data = *plan.data;
  plan.fact("data        {}: {} + {} tokens, vocabulary {}, hash {}", recipe.data.file, data.train.count(),
            data.validation.count(), data.tokenizer.size(), data.hash);
  if (data.floor) plan.fact("floor       {:.4f} nats per token", *data.floor);
  const TrainConfig& train = recipe.train;
  plan.fact("step        batch {} x accumulation {} x {}context {} tokens", train.batch_size,
            train.accumulation, train.strands > 1 ? fmt::format("strands {} x ", train.strands) : "",
            recipe.model.context);
  const std::int64_t sequences = train.steps * train.passes() * train.batch_size;
  const double epochs = double(sequences) * double(recipe.model.context) / double(data.train.count());
  plan.fact("epochs      {:.2f}", epochs);
  plan.numbers["train_tokens"] = data.train.count();
  plan.numbers["validation_tokens"] = data.validation.count();
  plan.numbers["vocabulary"] = data.tokenizer.size();
  plan.numbers["epochs"] = epochs;
  bool short_split = false;
  for (const auto& [name, split] : {std::pair{"train", &data.train}, {"validation", &data.validation}})
    plan.look([&, &name = name, &split = split] {
      const bool enough =
          split->count() > recipe.model.context || (split == &data.validation && !plan.validates);
      short_split |= !enough;
      require(enough, ExitCode::data, "{}: its {} split has {} tokens; want more than model.context = {}",
              recipe.data.file, name, split->count(), recipe.model.context);
    });
  if (short_split || !plan.validates) return;
  const auto all = Windows(data.validation, recipe.model.context).count();
  const std::int64_t windows = validation_windows(train, all);
  plan.fact("validation  {}", validation_text(recipe, windows, all));
  if (train.eval_windows > all)
    plan.notes.push_back(fmt::format("train.eval_windows = {}: the data has {}", train.eval_windows, all));
  plan.numbers["validation_windows"] = windows;
  plan.numbers["validation_share"] = validation_share(train, windows);
}

void stations::devices(RunPlan& plan) {
  const TrainConfig& train = plan.recipe.train;
  const int devices = plan.devices;
  if (train.strands >= devices) return;
  // The step's micro-batches, cut otherwise; more of them where they are too few.
  const std::int64_t passes = train.passes();
  std::int64_t strands = devices;
  while (strands < passes && passes % strands != 0) ++strands;
  const std::int64_t accumulation = std::max<std::int64_t>(1, passes / strands);
  fail(ExitCode::usage,
       "train.strands = {}: {} can share a step, and there are {}; want, say, --train.strands={} "
       "--train.accumulation={}{}",
       train.strands, train.strands == 1 ? "one device" : fmt::format("{} devices", train.strands), devices,
       strands, accumulation,
       strands * accumulation == passes ? ", the same step with its sums in another order" : "");
}

void stations::folder(RunPlan& plan) {
  if (!plan.writes) return;
  const fs::path folder = fs::path(plan.recipe.train.out) / plan.recipe.name;
  plan.fact("folder      {}", folder.string());
  require_writable(folder);
  plan.folder = folder;
  if (plan.rehearses) quiet_folder(plan.folder, go_elsewhere);  // a run locks it, and knows then
}

void compute_again(RunPlan& plan, const std::string& device, const std::string& data) {
  Recipe& recipe = plan.recipe;
  plan.validates = false;
  recipe.compute.threads = 0;
  if (!data.empty()) recipe.data.file = data;
  require(!recipe.data.file.empty(), ExitCode::usage, "recipe '{}': data.file is not set; add --data FILE",
          recipe.name);
  if (data.empty()) require_data_of(plan.begin.file.value_or(recipe.name), recipe.data.file);
  if (device.empty() || device == recipe.compute.device) return;
  recipe.compute.device = device;
  recipe.compute.gemm = GemmChoice::library;  // codes are the CPU's alone
  recipe.compute.attention = AttentionKernels::own;
}

std::unique_ptr<Trainer> open_trainer(RunPlan& plan, Backend& backend, Devices* devices) {
  Beginning& begin = plan.begin;
  auto trainer = std::make_unique<Trainer>(backend, plan.recipe, *plan.data, devices);
  if (begin.checkpoint) trainer->load(*begin.checkpoint);
  if (begin.weights) {
    begin.turn = begin.weights->turn(begin.weights->load(backend, trainer->model()), trainer->recipe().model);
    trainer->load_shared(0);
    trainer->set_lineage(begin.weights->lineage());
  }
  if (begin.lineage) trainer->set_lineage(*begin.lineage);
  const auto add = [&](const Turn& turn) { trainer->set_lineage(with_turn(trainer->lineage(), turn)); };
  if (begin.turn) add(*begin.turn);
  if (begin.checkpoint)
    for (const Turn& back : turns_of_rollbacks(plan.recipe, begin.known_rollbacks))
      if (back.from != back.step) add(back);  // a switch is in the recipe alone, as if it was planned
  begin.checkpoint.reset();
  return trainer;
}

}  // namespace mxtape
