#pragma once
#include <cmath>
#include <csignal>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>

#include "kernels/calls_rows.h"
#include "program/plan/rollback.h"
#include "program/run/run.h"
#include "tests/train/tiny_run.h"

namespace mxtape::test {

/// Does something once, before the first call of a kernel that follows the update of a step.
class Disturbed final : public ForwardingBackend {
 public:
  using ForwardingBackend::ForwardingBackend;
  std::int64_t after_step = -1;
  std::function<void()> disturb;
  std::set<std::int64_t>
      bad_norms;  ///< the gradient's norm of these updates, counted from 1, is not a number
  std::int64_t bad_table_after =
      -1;  ///< the table of tokens is none from this update on, until it is read again

  std::int64_t bad_moment_in = -1;  ///< a second moment is infinite from this update on

  void dispatch(AnyCall any) override {
    if (steps_ == after_step && disturb && any.as<call::Embedding>()) std::exchange(disturb, {})();
    if (const auto* embedding = any.as<call::Embedding>(); embedding && steps_ == bad_table_after)
      inner_.fill(embedding->table, NAN), bad_table_after = -1;
    inner_.dispatch(any);
    if (const auto* update = any.as<call::AdamW>(); update && steps_ == bad_moment_in)
      inner_.fill(update->v, INFINITY);
    if (const auto* clip = any.as<call::ClipFactor>()) {
      ++steps_;
      if (bad_norms.contains(steps_)) inner_.fill(clip->norm, NAN), inner_.fill(clip->factor, NAN);
    }
  }

 private:
  std::int64_t steps_ = 0;
};

struct LoopRun {
  TemporaryFolder folder;
  Recipe recipe;
  TokenFile data = tiny_data();
  std::unique_ptr<Backend> device = make_backend("cpu", recipe.compute.options());
  Disturbed disturbed{*device};
  ObservedDevice observed{disturbed, recipe};

  explicit LoopRun(Recipe r) : recipe(std::move(r)) {}

  /// Trains in `folder`/run, from `checkpoint` on if there is one; returns the error's text, or "".
  std::string train(const std::filesystem::path& checkpoint = {}) {
    RunFolder run(folder / "run");
    RunPlan plan(recipe);
    plan.words.command = "mxtape train tiny.toml";
    plan.folder = run.path();
    plan.data = std::make_shared<const TokenFile>(data);
    if (!checkpoint.empty()) plan.begin.checkpoint.emplace(checkpoint);
    auto trainer = open_trainer(plan, observed.backend);
    try {
      (void)train_to_the_end(plan, observed, run, trainer);
      return "";
    } catch (const Error& e) {
      code = e.code();
      return e.what();
    }
  }
  std::filesystem::path checkpoint(std::int64_t step, const char* run = "run") const {
    return folder / fmt::format("{}/checkpoints/step_{:08}.h5", run, step);
  }
  ExitCode code{};
};

inline Recipe recipe_of(std::int64_t steps) {
  Recipe r = tiny_recipe(steps);
  r.train.eval_every = 4;
  return r;
}

}  // namespace mxtape::test
