#pragma once
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "autograd/saved.h"
#include "kernels/choose/make_backend.h"
#include "nn/model.h"
#include "optim/adamw.h"
#include "optim/schedule.h"

namespace mxtape {

/// The type of what passes between layers, and of its gradients; weights, moments and weight gradients are
/// f32.
enum class ActivationType : std::uint8_t { f32, bf16 };

/// Which GEMMs multiply operands that have integer codes. A run records what `automatic` became.
enum class GemmChoice : std::uint8_t { automatic, library, integer };

struct ComputeConfig {
  std::string device = "cpu";
  ActivationType activations = ActivationType::f32;
  AttentionKernels attention = AttentionKernels::own;
  GemmChoice gemm = GemmChoice::automatic;
  Recompute recompute = Recompute::automatic;
  Saved saved = Saved::automatic;
  bool graph = true;                ///< record the step on devices that can, and launch it as one
  std::int64_t threads = 0;         ///< 0: all
  bool overlap = true;              ///< several devices: gradients are exchanged while backward goes on
  std::int64_t bucket_kib = 16384;  ///< f32 gradients that are exchanged together, or one larger parameter

  /// The choice, made for the device and this machine if it is automatic.
  GemmKernels gemm_kernels() const {
    if (gemm == GemmChoice::automatic) return quicker_gemm_kernels(device);
    return gemm == GemmChoice::integer ? GemmKernels::integer : GemmKernels::library;
  }
  std::int64_t bucket_elements() const { return bucket_kib * (1024 / std::int64_t(sizeof(float))); }
  BackendOptions options() const { return {.graph = graph, .attention = attention, .gemm = gemm_kernels()}; }
};

/// What a run measures of its own roundings while it trains: docs/telemetry.md.
struct TelemetryConfig {
  std::int64_t every = 0;              ///< steps between measurements; 0: none
  std::vector<std::string> formats{};  ///< tried on the same numbers besides those in use
  std::string layers = "*";            ///< LayerNames: "blocks.*.mlp.*", "blocks[:2].*|head"
  std::vector<std::string> slots{};    ///< globs over measured_slots; empty: all
  std::int64_t sample = 1 << 14;       ///< numbers of an operand, about
  std::int64_t window = 50;            ///< most steps up to a measurement in which weights are followed
  bool measures(std::int64_t step) const { return every > 0 && step % every == 0; }
};

struct DataConfig {
  std::string file;  ///< made by `mxtape prepare` or `mxtape corpus`; relative to the working directory
};

/// TrainConfig::eval_windows: as many as validation_windows() (train/evaluate.h) finds fit.
inline constexpr std::int64_t auto_windows = -1;

/// What follows a step whose loss or gradient is not finite.
enum class OnDivergence : std::uint8_t {
  stop,
  skip,     ///< the step counts and changes no weight; at most skip_most in a row
  rollback  ///< the run goes on from its last checkpoint, otherwise than before; at most rollback_most times
};

/// What devices send each other of new weights: f32 values, or, where a step reads no more, packed copies.
enum class Gather : std::uint8_t { values, copies };

struct TrainConfig {
  std::string init = "";  ///< whose weights and [model] a new run begins with; empty: drawn
  std::int64_t steps = 2000;
  std::int64_t batch_size = 12;              ///< sequences of one micro-batch
  std::int64_t accumulation = 1;             ///< micro-batches of a strand, one after the other on a device
  std::int64_t strands = 1;                  ///< of one optimizer step; devices share them
  std::int64_t verify_every = 100;           ///< steps between comparisons of the devices; 0: before saving
  Gather gather = Gather::values;            ///< the new weights, where devices share them
  std::int64_t eval_every = 250;             ///< 0: only at the end
  std::int64_t eval_windows = auto_windows;  ///< of each validation; 0: the whole split
  std::int64_t save_every = 0;               ///< 0: only at the end
  std::int64_t save_minutes = 10;            ///< and after so many minutes without one; 0: not
  std::int64_t keep = 2;                     ///< newest checkpoints kept
  std::int64_t keep_every = 0;               ///< checkpoints at its multiples are made and kept; 0: none
  bool keep_best = false;                    ///< the one with the lowest validation loss too
  OnDivergence on_divergence = OnDivergence::stop;
  std::int64_t skip_most = 3;            ///< steps in a row
  std::int64_t rollback_most = 2;        ///< times in a run
  bool rollback_skip = true;             ///< a rollback passes over the batches since its checkpoint
  std::vector<std::string> rollbacks{};  ///< those that were: recipes/rollbacks.h
  std::string out = "runs";              ///< folder of the run's folder `<out>/<name>`
  std::int64_t sample_tokens = 200;      ///< length of the text printed at the end; 0: none

  /// Forward and backward passes, so micro-batches, of one optimizer step.
  std::int64_t passes() const { return accumulation * strands; }
};

/// One line of precision: which slots of which layers round how.
struct PrecisionRule {
  std::string layers = "*";        ///< LayerNames: "blocks.*.mlp.*", "blocks[:2].*|head"
  std::vector<std::string> slots;  ///< globs over slot names: "fprop.x", "*.w", "dgrad.*", "qk.*"; empty: all
  std::string format;              ///< plain_rule_format(): what it is says which kind of slots
  std::string where{};             ///< file:line, for messages
};
/// Rules that hold from a step on, after all rules of earlier phases. One of the five says from which.
struct PrecisionPhase {
  std::int64_t start = 0;           ///< optimizer step
  std::int64_t start_tokens = 0;    ///< the first step before which that many tokens were trained on
  float start_fraction = 0;         ///< of train.steps, rounded up
  bool start_of_decay = false;      ///< first_decaying_step()
  std::int64_t start_rollback = 0;  ///< where the run's n-th rollback led to
  std::vector<PrecisionRule> rules;
};
/// The order in which precision is decided, later wins: the five broad keys, the rules, the phases that have
/// started.
struct PrecisionConfig {
  std::string weights = "f32";      ///< fprop.w dgrad.w of all linear layers in blocks
  std::string activations = "f32";  ///< fprop.x wgrad.x
  std::string gradients = "f32";    ///< dgrad.dy wgrad.dy
  std::string attention = "f32";    ///< all attention slots
  std::string head = "f32";         ///< all slots of the head
  float weight_average = 0;         ///< decay of the moving averages that `ema` asks; 0: there are none
  float switch_error = 0;           ///< measured error that begins the next rollback's phase; 0: none does
  std::vector<PrecisionRule> rules;
  std::vector<PrecisionPhase> phases;
};

/// What a run is. Defaults < recipe file (after what it extends) < --section.key=value.
struct Recipe {
  std::string name;
  std::string description;
  std::uint64_t seed = 1;
  ModelConfig model;
  DataConfig data;
  TrainConfig train;
  AdamWConfig optim;
  ScheduleConfig schedule;
  PrecisionConfig precision;
  ComputeConfig compute;
  TelemetryConfig telemetry;
  /// Who set a key: "file:line" or "command line", by the key's full name. Keys with their default are
  /// absent.
  std::map<std::string, std::string> origins;

  std::int64_t tokens_per_step() const { return train.batch_size * train.passes() * model.context; }
  std::string origin(std::string_view key) const {
    const auto found = origins.find(std::string(key));
    return found == origins.end() ? "default" : found->second;
  }
};

/// Reads a recipe file or the name of a shipped one, applies overrides ("optim.beta2=0.95") and validates the
/// result. Rules and phases of a file are added after those of the recipe it extends. Throws Error(usage)
/// with file:line:column, the key, what was found, what is wanted, and the nearest known name.
Recipe read_recipe(const std::string& path_or_name, const std::vector<std::string>& overrides = {});
/// The same on top of another recipe instead of the defaults. Rules and phases that the file repeats are not
/// added twice.
Recipe read_recipe_onto(Recipe base, const std::string& path_or_name,
                        const std::vector<std::string>& overrides);
/// Command-line words "--optim.beta2=0.95" or "--optim.beta2" "0.95" as overrides for read_recipe. Throws
/// Error(usage) for anything else; a word that may be a misspelt one of the command's own `options` (without
/// their dashes) is called that.
std::vector<std::string> overrides_from_arguments(std::span<const std::string> arguments,
                                                  std::span<const std::string> options = {});

/// The resolved recipe as TOML, every key with its value and a comment with its origin; reads back to the
/// same recipe.
std::string to_toml(const Recipe&);
/// The recipe as checkpoints hold it: equal runs in other folders, on other thread counts or with
/// interruptions give equal bytes. Its origins say which keys have their default, and no more.
Recipe without_whereabouts(Recipe);
/// Reads what to_toml wrote; `where` is its name in messages.
Recipe recipe_from_toml(const std::string& text, const std::string& where);
/// Keys whose values differ, as "optim.beta2: 0.99 -> 0.95"; empty for equal recipes. Origins do not count,
/// nor does how a number format is written.
std::vector<std::string> differences(const Recipe& before, const Recipe& after);
/// The key in "optim.beta2: 0.99 -> 0.95", "precision.rules 1: ... -> ...".
inline std::string key_of(const std::string& change) { return change.substr(0, change.find_first_of(": ")); }
/// The file in "file:12", where a key or rule was written.
inline std::string file_of(const std::string& origin) { return origin.substr(0, origin.rfind(':')); }

/// Throws Error(usage) if keys that are fine one by one do not fit together: a warm-up longer than the run,
/// a width that the heads do not divide, a precision pattern that matches nothing.
void validate(const Recipe&);

/// The plan that holds at optimizer step `step`. Throws Error(usage) if a pattern matches nothing.
PrecisionPlan precision_plan(const Recipe&, std::int64_t step);
/// What compute.saved and compute.recompute are for a plan. `automatic` is `packed`, and then norm_and_gelu,
/// where what an MLP computes takes 16 MiB, more than caches hold, and a layer waits for backward in codes of
/// integer GEMMs that become smaller; else `ready` and `none`. Copies of weights go where a CPU packs and no
/// other pass or device of the step uses them.
Kept kept_for(const PrecisionPlan&, const Recipe&);
/// Bits of an element of what wgrad's x is packed as; 0: it is not.
int packed_bits(const LinearQuant&, GemmKernels, bool narrows);
/// The rules that hold at optimizer step `step`, in the order in which they are applied.
std::vector<PrecisionRule> rules_at(const Recipe&, std::int64_t step);
/// The optimizer step from which a phase of the recipe holds; `never` for one whose rollback has not come.
inline constexpr std::int64_t never = INT64_MAX;
std::int64_t phase_start(const Recipe&, const PrecisionPhase&);
/// Steps at which the plan changes, ascending, 0 first; without `never`.
std::vector<std::int64_t> plan_changes(const Recipe&);

/// docs/recipes.md: how recipes are read, every key with default, accepted values and meaning, the slots, the
/// shipped recipes. Written from the knob table; a test compares it with the file.
std::string recipe_reference();

}  // namespace mxtape
