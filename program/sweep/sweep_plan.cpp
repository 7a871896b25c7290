#include "program/sweep/sweep_plan.h"

#include <map>

#include "core/files/atomic_file.h"
#include "core/files/in_file.h"
#include "core/parallel.h"
#include "program/plan/resume.h"
#include "program/plan/run_plan.h"
#include "program/records/room.h"
#include "program/records/run_name.h"
#include "recipes/knobs.h"
#include "recipes/text/precision_notes.h"

namespace mxtape {
namespace fs = std::filesystem;
namespace {

/// Keys that decide what a run's records hold, which are judged: runs that differ in one are not paired.
bool is_measured(const std::string& key) {
  return key == "train.eval_every" || key == "train.eval_windows" || key.starts_with("telemetry.");
}

/// Fills a plan in, step by step. Each step throws what would stop the runs.
class Planner {
 public:
  Planner(const SweepOptions& options, Sweep sweep) : options_(options) {
    plan_.sweep = std::move(sweep), plan_.out = options.out;
  }

  SweepPlan plan() {
    look_at_arms();
    look_at_runs();
    share_cores();
    look_at_disk();
    return std::move(plan_);
  }

 private:
  void look_at_arms() {
    require(!plan_.sweep.arms.front().recipe.data.file.empty(), ExitCode::usage,
            "{}: data.file is not set; want it in [set], or in the base", plan_.sweep.file);
    for (SweepArm& arm : plan_.sweep.arms)
      at_place(fmt::format("{}: arm '{}'", arm.where, arm.name), [&] { look_at(arm); });
    const TrainConfig& train = plan_.sweep.arms.front().recipe.train;
    if (train.eval_every >= train.steps || train.eval_every == 0)
      plan_.notes.push_back(
          fmt::format("each run is validated once, at its end (train.steps {}, train.eval_every {}): curves "
                      "of the validation loss want more",
                      train.steps, train.eval_every));
  }

  /// As a run of its own would be planned. All arms have the same data, and begin with the same weights.
  void look_at(SweepArm& arm) {
    if (arm.trunk) {  // which is as large, on the same device
      arm.recipe.model.vocabulary = plan_.vocabulary;
      plan_.arithmetics.push_back(plan_.arithmetics[*arm.trunk]);
      return disk_.push_back(disk_[*arm.trunk]);
    }
    RunPlan plan(arm.recipe);
    plan.recipe.compute.threads = 0;  // share_cores() says how many
    plan.data = data_;
    const auto& init = arm.recipe.train.init;
    if (!init.empty()) plan.begin.weights = weights_.try_emplace(init, init).first->second;
    plan_through(plan, Station::memory);
    data_ = plan.data;
    const std::string device = plan.device->description();
    plan_.arithmetics.push_back(arithmetic_of(device));
    if (arm.name == plan_.sweep.baseline) plan_.device = device;
    host_ = host_ && arm.recipe.compute.device == "cpu";
    plan_.memory_of_run = std::max(plan_.memory_of_run, plan.budget->needed(*plan.memory));
    plan_.memory = plan.budget->capacity;
    disk_.push_back(disk_needed(*plan.memory, plan.recipe));
    for (const auto& note : precision_notes(arm.recipe))
      plan_.notes.push_back(fmt::format("arm '{}': {}", arm.name, note));
    if (!init.empty() && weights_hash_.empty())
      weights_hash_ = plan.begin.weights->content_hash(plan.recipe.model);
    plan_.data_hash = data_->hash;
    plan_.vocabulary = data_->tokenizer.size();
  }

  void look_at_runs() {
    for (const std::uint64_t seed : plan_.sweep.seeds)
      for (std::size_t arm = 0; arm < plan_.sweep.arms.size(); ++arm) {
        SweepRun run;
        run.arm = arm, run.seed = seed, run.steps = plan_.sweep.arms[arm].recipe.train.steps;
        if (const auto trunk = plan_.sweep.arms[arm].trunk)
          run.steps_done = run.first_step = plan_.sweep.arms[*trunk].recipe.train.steps;
        const std::string& name = plan_.sweep.arms[arm].name;
        run.folder = plan_.out / "runs" / name / std::to_string(seed);
        run.log = plan_.out / "logs" / name / fmt::format("{}.txt", seed);
        look_at(run);
        plan_.runs.push_back(std::move(run));
      }
    std::string stale;
    std::int64_t count = 0;
    for (SweepRun& run : plan_.runs) {
      if (run.stale.empty()) continue;
      if (++count <= 8) stale += fmt::format("\n  {}: {}", plan_.name_of(run), run.stale);
      run.state = RunState::fresh, run.steps_done = run.first_step, run.record.reset();
    }
    if (count > 8) stale += fmt::format("\n  and {} more", count - 8);
    require(stale.empty() || options_.again, ExitCode::usage,
            "{}: {} there {} another recipe, program or data:{}\n--again trains {} anew (what is there "
            "is kept), --out goes elsewhere",
            plan_.out.string(), counted(count, "run"), count == 1 ? "has" : "have", stale,
            count == 1 ? "it" : "them");
  }

  /// What of a run is there, and whether it is this one's.
  void look_at(SweepRun& run) const {
    if (!fs::exists(run.folder / "recipe.toml")) return;
    run.record = read_record(run.folder);
    if (run.stale = stale_reason(run); !run.stale.empty()) return;
    const auto checkpoints = list_checkpoints(run.folder);
    if (!checkpoints.empty())
      run.state = RunState::unfinished, run.steps_done = step_of_checkpoint(checkpoints.front()).value_or(0);
    if (run.steps_done == run.steps && log_of_whole_run(run.folder, run.steps))
      run.state = RunState::finished;
    // It would diverge again: same recipe, same bits.
    if (run.state != RunState::finished && run.record && run.record->code == int(ExitCode::diverged))
      run.state = RunState::failed;
  }

  std::string stale_reason(const SweepRun& run) const {
    const fs::path file = run.folder / "recipe.toml";
    try {
      const Recipe there = recipe_from_toml(read_whole_text(file), file.string());
      Recipe wanted = with_vocabulary(plan_.recipe_of(run), data_->tokenizer);
      wanted.train.rollbacks = there.train.rollbacks;  // the run's own
      settle_gemm(wanted.compute, &there.compute);
      for (const auto& change : differences(with_vocabulary(there, data_->tokenizer), wanted))
        if (changes_numbers(wanted, key_of(change)) || is_measured(key_of(change))) return change;
    } catch (const Error& e) {
      if (e.code() == ExitCode::resource) throw;  // what cannot be read may be this run's
      return e.what();
    }
    const std::string& arithmetic = plan_.arithmetics[run.arm];
    std::string trained_by = run.record ? run.record->arithmetic : "";
    if (!run.record && fs::exists(run.folder / "device.txt"))
      trained_by = arithmetic_of(read_whole_text(run.folder / "device.txt"));
    if (!trained_by.empty() && trained_by != arithmetic)
      return fmt::format("trained by {}; this is {}", trained_by, arithmetic);
    const std::string trained_on = run.record ? run.record->data_hash : data_hash_of(run.folder);
    if (!trained_on.empty() && trained_on != plan_.data_hash)
      return fmt::format("trained on data of hash {}; {} has {}", trained_on,
                         plan_.sweep.arms[run.arm].recipe.data.file, plan_.data_hash);
    const std::string began_with = initial_hash_of(run.folder);
    if (!weights_hash_.empty() && !began_with.empty() && began_with != weights_hash_)
      return fmt::format("began with weights of hash {}; {} has {}", began_with,
                         plan_.sweep.arms[run.arm].recipe.train.init, weights_hash_);
    return "";
  }

  void share_cores() {
    const int cores = threads();
    const auto fitting =
        int(std::clamp<std::int64_t>(plan_.memory / std::max<std::int64_t>(plan_.memory_of_run, 1), 1, 1024));
    const auto most = int(std::clamp<std::int64_t>(plan_.to_do(), 1, 1024));
    require(options_.jobs <= fitting, ExitCode::resource,
            "--jobs {}: a run needs {} of memory and there are {}; want at most {}", options_.jobs,
            bytes_text(double(plan_.memory_of_run)), bytes_text(double(plan_.memory)), fitting);
    // A small model's step has parts that one thread does alone: runs side by side keep all cores busy.
    const int wanted = options_.jobs ? options_.jobs : host_ ? cores : 1;
    if (!options_.jobs && wanted > fitting && most > fitting)
      plan_.notes.push_back(fmt::format("{} of {} runs at a time, for the memory", fitting, wanted));
    plan_.jobs = std::min({wanted, fitting, most});
    plan_.threads = std::max(1, cores / plan_.jobs);
  }

  void look_at_disk() {
    double needed = 0;
    for (const SweepRun& run : plan_.runs)
      if (run.to_do()) needed += disk_[run.arm];
    plan_.disk_free = free_bytes(plan_.out);
    require(needed < double(plan_.disk_free), ExitCode::resource,
            "{}: the runs need {}, {} are free; lower train.keep in [set], or change --out",
            plan_.out.string(), bytes_text(needed), bytes_text(double(plan_.disk_free)));
    plan_.disk_needed = std::int64_t(needed);
  }

  const SweepOptions& options_;
  SweepPlan plan_;
  std::shared_ptr<const TokenFile> data_;
  std::map<std::string, InitialWeights> weights_;  // of each train.init that an arm could have
  std::string weights_hash_;
  bool host_ = true;
  std::vector<double> disk_;  // of a run, by arm [bytes]
};

}  // namespace

std::string_view name_of(RunState state) {
  constexpr std::string_view names[] = {"to do", "unfinished", "finished", "failed"};
  return names[std::size_t(state)];
}

Recipe SweepPlan::recipe_of(const SweepRun& run) const {
  const SweepArm& arm = sweep.arms[run.arm];
  Recipe recipe = arm.recipe;
  recipe.name = std::to_string(run.seed);
  recipe.seed = run.seed;
  recipe.train.out = (out / "runs" / arm.name).string();
  recipe.compute.threads = threads;
  return recipe;
}

SweepPlan plan_sweep(const SweepOptions& options, Sweep sweep) {
  return Planner(options, std::move(sweep)).plan();
}

}  // namespace mxtape
