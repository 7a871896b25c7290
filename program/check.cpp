#include "program/check.h"

#include <algorithm>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>

#include "core/parallel.h"
#include "kernels/choose/make_backend.h"
#include "program/beginning.h"
#include "program/devices/agree.h"
#include "program/devices/plan_text.h"
#include "program/header.h"
#include "program/model_text.h"
#include "program/room.h"
#include "program/start_needs.h"
#include "recipes/telemetry/telemetry.h"
#include "recipes/text/idle_keys.h"
#include "recipes/text/precision_notes.h"
#include "recipes/text/saved_text.h"
#include "train/divergence/high_loss.h"
#include "train/memory/memory_budget.h"
#include "train/trainer.h"

namespace mxtape {
namespace fs = std::filesystem;
namespace {

class Check {
 public:
  Check(const Recipe& recipe, const RunOptions& options, int devices)
      : asked_(recipe),
        options_(options),
        devices_(devices),
        run_(fs::path(recipe.train.out) / recipe.name) {}

  CheckReport run() {
    attempt([&] { look_at_data(); });
    attempt([&] {
      if (devices_ > 0) require_strands(recipe_.train, devices_);
    });
    attempt([&] { look_at_folder(); });
    attempt([&] { look_at_beginning(); });
    if (const auto& branch = options_.branch; branch && (!begin_ || begin_->branches))
      report_.facts.insert(report_.facts.end(), branch->lines.begin(), branch->lines.end());
    attempt([&] {  // all the same, for what follows
      if (has_data_ && !begin_) recipe_ = with_vocabulary(recipe_, data_.tokenizer);
    });
    if (begin_ && begin_->finished) return std::move(report_);
    attempt([&] { look_at_device(); });
    look_at_model();
    attempt([&] { look_at_devices(); });
    attempt([&] { look_at_disk(); });
    attempt([&] { look_at_weights(); });
    look_at_rollbacks();
    look_at_telemetry();
    look_for_notes();
    return std::move(report_);
  }

 private:
  void attempt(const std::function<void()>& look) {
    try {
      look();
    } catch (const Error& e) {
      auto& all = report_.problems;
      const auto same = [&](const Error& known) { return std::string_view(known.what()) == e.what(); };
      if (std::none_of(all.begin(), all.end(), same)) all.push_back(e);
    }
  }
  template <class... Args>
  void fact(fmt::format_string<Args...> text, Args&&... args) {
    report_.facts.push_back(fmt::format(text, std::forward<Args>(args)...));
  }
  Value& number(std::string_view key) { return report_.numbers[key]; }

  void look_at_data() {
    data_ = read_data(recipe_);
    const TokenFile& data = data_;
    fact("data        {}: {} + {} tokens, vocabulary {}", recipe_.data.file, data.train.count(),
         data.validation.count(), data.tokenizer.size());
    number("train_tokens") = data.train.count();
    number("validation_tokens") = data.validation.count();
    number("vocabulary") = report_.vocabulary = data.tokenizer.size();
    const std::int64_t passes = recipe_.train.steps * recipe_.train.passes() * recipe_.train.batch_size;
    const double epochs = double(passes) * double(recipe_.model.context) / double(data.train.count());
    fact("epochs      {:.2f}", epochs);
    number("epochs") = epochs;
    const auto too_short = short_splits(recipe_, data);
    report_.problems.insert(report_.problems.end(), too_short.begin(), too_short.end());
    if (too_short.empty()) {
      fact("validation  {}", validation_text(recipe_, data));
      const auto all = Windows(data.validation, recipe_.model.context).count();
      const std::int64_t windows = validation_windows(recipe_.train, all);
      number("validation_windows") = windows;
      number("validation_share") = validation_share(recipe_.train, windows);
    }
    has_data_ = true;
  }

  void look_at_folder() {
    fact("folder      {}", run_.path().string());
    require_writable(run_.path());
  }

  void look_at_beginning() {
    if (!has_data_) return (void)choose_start(run_, options_.resume);
    begin_ = begin_run(asked_, options_, run_, data_);
    recipe_ = begin_->recipe;
    report_.notes = begin_->notes;
    if (begin_->finished)
      report_.notes.push_back(fmt::format("all {} steps of {} are done: nothing is left to train",
                                          recipe_.train.steps, begin_->start.checkpoint->string()));
  }

  void look_at_device() {
    if (recipe_.compute.threads > 0) set_threads(int(recipe_.compute.threads));
    device_ = make_backend(recipe_.compute.device, recipe_.compute.options());
    fact("device      {}", device_->description());
    number("device") = device_->description();
    budget_ = MemoryBudget::of(recipe_, *device_, data_);
  }

  void look_at_model() {
    const ModelConfig& m = recipe_.model;
    if (m.vocabulary == 0) {
      report_.notes.push_back("model, memory and disk depend on the data's vocabulary: not known");
      return;
    }
    fact("model       {}", model_text(m));
    number("parameters") = parameter_count(m);
    plan_ = memory_plan(recipe_);
    if (const std::string saved = saved_text(recipe_); !saved.empty()) fact("saved       {}", saved);
    if (budget_) fact("memory      {}", memory_text(*plan_, *budget_));
    if (budget_) {
      number("memory_needed_bytes") = budget_->needed(*plan_);
      number("memory_capacity_bytes") = budget_->capacity;
    }
    if (recipe_.train.strands > 1) {
      number("strand_gradient_bytes") = plan_->travelling;
      fact("strands     {}", gradients_text(*plan_));
    }
    const double flops = plan_->integer_ops + plan_->bf16_flops + plan_->f32_flops;
    const bool large = flops >= 1e12;
    const bool widened = bf16_products(recipe_.compute.device) == Bf16Products::widened;
    const std::string integers = plan_->integer_ops > 0 ? fmt::format("{:.0f}% of it in integer GEMMs, ",
                                                                      100 * plan_->integer_ops / flops)
                                                        : "";
    fact("work        {:.4g} {} a step in linear layers, {}{:.0f}% of it {}", flops * (large ? 1e-12 : 1e-9),
         large ? "TFLOP" : "GFLOP", integers, 100 * plan_->bf16_flops / flops,
         widened ? "of bf16 operands, which are widened to f32" : "in bf16 GEMMs");
    number("step_flops") = flops;
    number("step_bf16_flops") = plan_->bf16_flops;
    number("step_integer_ops") = plan_->integer_ops;
    attempt([&] {
      if (budget_) require_memory(recipe_, *plan_, *budget_);
    });
  }

  void look_at_devices() {
    if (devices_ == 0 || recipe_.train.strands < devices_ || recipe_.model.vocabulary == 0) return;
    report_.devices = device_plan(recipe_, devices_);
    for (auto& line : device_facts(*report_.devices)) report_.facts.push_back(std::move(line));
  }

  void look_at_disk() {
    if (!plan_) return;
    const std::int64_t checkpoint = checkpoint_bytes(*plan_, recipe_);
    const std::int64_t to_start = room_to_start(*plan_, recipe_);
    const double needed = disk_needed(*plan_, recipe_);
    number("checkpoint_bytes") = checkpoint;
    number("disk_to_start_bytes") = double(to_start);
    number("disk_needed_bytes") = needed;
    const double free = double(free_bytes(run_.path()));  // may throw: the rest stays known
    number("disk_free_bytes") = free;
    fact("disk        {} a checkpoint, {} with all that are kept and the records; {} are free",
         bytes_text(double(checkpoint)), bytes_text(needed), bytes_text(free));
    require_room(run_.path(), to_start);
    if (std::string lack = lack_of_room(*plan_, recipe_, run_.path()); !lack.empty())
      report_.notes.push_back(std::move(lack));
  }

  /// What a run with train.init would begin with.
  void look_at_weights() {
    if (!begin_ || !begin_->init) return;
    const InitialWeights& weights = *begin_->init;
    report_.weights = weights.text();
    report_.notes.insert(report_.notes.end(), weights.notes().begin(), weights.notes().end());
    report_.weights_hash = weights.content_hash(recipe_.model);
    fact("init        {}, content hash {}", report_.weights, report_.weights_hash);
  }

  void look_at_rollbacks() {
    const TrainConfig& t = recipe_.train;
    if (t.on_divergence != OnDivergence::rollback) return;
    const auto were = std::int64_t(t.rollbacks.size());
    fact(
        "rollback    to the last checkpoint, at most {} times{}; a checkpoint is written before the first "
        "step; {}",
        t.rollback_most, were ? fmt::format(", {} of them done", were) : "",
        t.rollback_skip ? "the batches since the checkpoint are passed over" : "the same batches come again");
    if (t.save_every == 0 && t.keep_every == 0)
      report_.notes.push_back(
          fmt::format("train.on_divergence = rollback: checkpoints come {}; train.save_every bounds what a "
                      "rollback loses",
                      t.save_minutes > 0 ? fmt::format("only every {} minutes", t.save_minutes)
                                         : std::string("only before the first step and at the end")));
  }

  void look_at_telemetry() {
    const TelemetryConfig& t = recipe_.telemetry;
    if (t.every == 0) return;
    fact("telemetry   {}; about {} on the disk", telemetry_text(recipe_),
         bytes_text(double(telemetry_bytes(recipe_))));
    if (t.every > recipe_.train.steps)
      report_.notes.push_back(fmt::format("{}: telemetry.every = {}: none of the {} steps is measured",
                                          recipe_.origin("telemetry.every"), t.every, recipe_.train.steps));
  }

  /// Keys that somebody set and that nothing reads with the others as they are; precision that may surprise.
  void look_for_notes() {
    for (const auto& [key, reason] : idle_keys(recipe_))
      if (const auto origin = recipe_.origins.find(std::string(key)); origin != recipe_.origins.end())
        report_.notes.push_back(fmt::format("{}: {} has no effect: {}", origin->second, key, reason));
    if (recipe_.model.vocabulary > 0)
      if (auto remark = remark_on_start(recipe_); !remark.empty()) report_.notes.push_back(std::move(remark));
    const auto precision = precision_notes(asked_);  // `auto` GEMMs are no wish for integers
    report_.notes.insert(report_.notes.end(), precision.begin(), precision.end());
  }

  const Recipe& asked_;
  const RunOptions& options_;
  const int devices_;
  const RunPaths run_;
  Recipe recipe_ = asked_;  ///< resolved, as soon as that is known
  std::optional<Beginning> begin_;
  TokenFile data_;
  bool has_data_ = false;
  std::unique_ptr<Backend> device_;
  std::optional<MemoryPlan> plan_;
  std::optional<MemoryBudget> budget_;
  CheckReport report_;
};

}  // namespace

CheckReport check_run(const Recipe& recipe, const RunOptions& options, int devices) {
  return Check(recipe, options, devices).run();
}

}  // namespace mxtape
