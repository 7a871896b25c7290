#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "program/plan/beginning.h"
#include "program/plan/branch.h"
#include "program/plan/run_words.h"
#include "program/show/report.h"
#include "train/memory/device_plan.h"
#include "train/memory/memory_budget.h"
#include "train/trainer.h"

namespace mxtape {

/// What is found out about a run before its first step, in this order: so of several problems a run always
/// ends with the same one.
enum class Station : std::uint8_t {
  recipe,     ///< words, a branch's parent, the [model] of train.init: usage, data
  data,       ///< the token file and its splits: usage, data
  devices,    ///< whether each of several has a strand: usage
  folder,     ///< whether it can be written, and nobody trains there: resource
  beginning,  ///< seed, weights, checkpoint or parent, and their tokenizer: usage, data
  settled,    ///< vocabulary, compute.gemm, rollbacks, what changed, whether a step is left: usage, data
  device,     ///< it is there: usage, resource
  memory,     ///< it is enough: resource
  disk,       ///< room for one checkpoint: resource
  notes,      ///< what may surprise
};

/// All that is known of a run. It holds what was opened on the way. Nothing is opened twice but a checkpoint.
struct RunPlan {
  explicit RunPlan(RunWords w) : words(std::move(w)) {}
  /// Of a known recipe, for steps that write nothing.
  explicit RunPlan(Recipe r) : writes(false), recipe(std::move(r)), next(Station::data) {}

  RunWords words{};
  /// A dress rehearsal (mxtape check): problems are listed, and what can be known all the same is looked at.
  /// Else the first one is thrown.
  bool rehearses = false;
  bool writes = true;                  ///< into a folder; else what begins is said in `begin`
  bool validates = true;               ///< else the validation split may be short
  int devices = 0;                     ///< that share the run; 0: not said
  int sharing = 1;                     ///< processes that share this one's memory
  std::optional<ModelConfig> model{};  ///< of what train.init names, if that is known

  Recipe recipe{};                          ///< from Station::settled on as the run will have it
  std::shared_ptr<const TokenFile> data{};  ///< is not read if it is there already
  std::filesystem::path folder{};           ///< <train.out>/<name>, if it can be written
  std::optional<Branch> branch{};           ///< where the run comes from, until it has an own checkpoint
  Beginning begin{};
  std::unique_ptr<Backend> device{};
  std::optional<MemoryPlan> memory{};
  std::optional<MemoryBudget> budget{};
  std::optional<DevicePlan> shares{};  ///< what each of `devices` needs and sends; of a rehearsal

  std::vector<std::string> facts{};  ///< lines for people
  /// The numbers of the facts, for programs, under their names in docs/json.md; what was not found out is not
  /// there.
  std::map<std::string_view, Value> numbers{};
  std::vector<std::string> notes{};  ///< for people: what was rejected, changed, chosen; what may surprise
  std::vector<Error> problems{};     ///< of a rehearsal: what would stop the run
  Station next = Station::recipe;

  template <class... Args>
  void fact(fmt::format_string<Args...> text, Args&&... args) {
    facts.push_back(fmt::format(text, std::forward<Args>(args)...));
  }
  template <class All>
  void note(const All& all) {
    notes.insert(notes.end(), all.begin(), all.end());
  }
  /// A look whose error does not hide what others find.
  void look(const std::function<void()>&);
};

/// Passes the stations up to `last` that it has not passed yet. Reads, and writes nothing; a station whose
/// premises are missing says nothing. Throws the first problem, but in a rehearsal; without a recipe always.
void plan_through(RunPlan&, Station last = Station::notes);

/// Of steps that are computed again, by all threads, on another device or with another token file ("": the
/// recipe's) whose validation split is not read. Throws Error(usage) if there is no token file.
void compute_again(RunPlan&, const std::string& device, const std::string& data);

/// A trainer at the beginning of the plan, which knows its past: what was open is closed. Throws Error(data)
/// if the weights do not fit.
std::unique_ptr<Trainer> open_trainer(RunPlan&, Backend&, Devices* = nullptr);

namespace stations {
// What plan_through() passes, each in its turn.
void recipe(RunPlan&), data(RunPlan&), devices(RunPlan&), folder(RunPlan&), beginning(RunPlan&),
    settled(RunPlan&), device(RunPlan&), memory(RunPlan&), disk(RunPlan&), notes(RunPlan&);
}  // namespace stations

/// "new weights once 0.21 GB instead of 0.50 GB of f32; 48 parameters as packed copies; 100 as f32, ...".
std::string gather_text(const GatherPlan&);
/// Lines of `mxtape check --devices N`.
std::vector<std::string> device_facts(const DevicePlan&);
/// The same for programs.
Value value_of(const DevicePlan&);

}  // namespace mxtape
