#include "recipes/knobs.h"

#include <algorithm>
#include <array>

#include "core/error.h"
#include "formats/quantizer.h"
#include "recipes/rows.h"
#include "recipes/text/slot_rules.h"

namespace mxtape {
namespace {

constexpr std::array<std::string_view, 3> divergence_names{"stop", "skip", "rollback"};
constexpr std::array<std::string_view, 2> gather_names{"values", "copies"};
constexpr std::array<std::string_view, 4> schedule_names{"constant", "linear", "cosine", "wsd"};

constexpr std::array<std::pair<std::string_view, std::int64_t>, 2> windows_names{
    {{"auto", auto_windows}, {"all", 0}}};

void check_name(const std::string& text) {
  constexpr std::size_t longest = 255;  // Linux's NAME_MAX
  const bool fits = !text.empty() && text.size() <= longest && text[0] != '.' && text.front() != ' ' &&
                    text.back() != ' ' && std::none_of(text.begin(), text.end(), [](unsigned char c) {
                      return c < ' ' || c == 127 || c == '/' || c == '\\';
                    });
  require(
      fits, ExitCode::usage,
      "the name becomes a folder's name: 1 to {} bytes, no '/' or '\\', no tab, line break or other control "
      "character, no '.' in front, no blank at its ends",
      longest);
}
void check_quantizer(const std::string& text) { (void)parse_quantizer(text); }
void check_rule_format(const std::string& text) { (void)plain_rule_format(text); }
constexpr TextCheck number_format{"a number format: 'mxtape formats' lists them", check_quantizer};
constexpr TextCheck rule_format{
    "a number format, 'hadamard=<size> signs=none|run|step|call', 'source=master|forward|shared' or "
    "'ste=identity|mask|dge'",
    check_rule_format};

}  // namespace

std::string_view Knob::section() const {
  const auto dot = name.rfind('.');
  return dot == std::string_view::npos ? std::string_view{} : name.substr(0, dot);
}
std::string_view Knob::key() const { return name.substr(name.rfind('.') + 1); }

void copy_value(const Knob& to, const Knob& from) {
  std::visit(
      [&](const auto& target) {
        const auto& source = std::get<std::decay_t<decltype(target)>>(from.field);
        if constexpr (requires { target.value; })
          *target.value = *source.value;
        else
          *target = *source;
      },
      to.field);
}

std::vector<Knob> knobs(Recipe& r) {
  std::vector<Knob> all{
      recorded({"name", &r.name, "the run's folder is <train.out>/<name>; without it, the recipe file's name",
                TextCheck{"a name for a folder", check_name}}),
      recorded({"description", &r.description, "one line for `mxtape recipes`"}),
      {"seed", &r.seed, "seeds initialisation, data order, dropout and stochastic rounding",
       between(0, 0x1p63)},

      recorded({"data.file", &r.data.file, "token file of `mxtape prepare` or `mxtape corpus`"}),

      {"train.init", &r.train.init,
       "a new run takes weights and [model] from this run, checkpoint, Hugging Face folder or llm.c file"},
      {"train.steps", &r.train.steps, "optimizer steps", between(1, 0x1p31)},
      {"train.batch_size", &r.train.batch_size, "sequences of a micro-batch", between(1, 1 << 20)},
      {"train.accumulation", &r.train.accumulation, "micro-batches of a strand, in sequence",
       between(1, 1 << 20)},
      {"train.strands", &r.train.strands,
       "parts of a step's batch that devices share; their gradients are summed in a fixed order",
       between(1, 1 << 16)},
      untraced({"train.verify_every", &r.train.verify_every,
                "steps between comparisons of the devices' weights; 0: only before saving", at_least(0)}),
      untraced({"train.gather", choice(r.train.gather, gather_names),
                "what devices send of new weights: f32 values, or codes and scales where a step reads "
                "nothing else"}),
      recorded({"train.eval_every", &r.train.eval_every, "steps between validations; 0: only at the end",
                at_least(0)}),
      recorded({"train.eval_windows", NamedInteger{&r.train.eval_windows, windows_names},
                "sequences of a validation, from the split's start; all or 0: all; auto: at most a fifth of "
                "the work of the steps in between",
                at_least(0)}),
      recorded({"train.save_every", &r.train.save_every, "steps between checkpoints; 0: not by step",
                at_least(0)}),
      recorded({"train.save_minutes", &r.train.save_minutes, "minutes between checkpoints; 0: not by time",
                between(0, 1 << 20)}),
      recorded({"train.keep", &r.train.keep, "newest checkpoints kept", at_least(1)}),
      recorded({"train.keep_every", &r.train.keep_every,
                "steps between checkpoints that are kept too; 0: none", at_least(0)}),
      recorded(
          {"train.keep_best", &r.train.keep_best, "save at each best validation so far, and keep the best"}),
      {"train.on_divergence", choice(r.train.on_divergence, divergence_names),
       "after a loss or gradient that is not finite; skip: the step changes no weight; rollback: to the last "
       "checkpoint"},
      {"train.skip_most", &r.train.skip_most, "most steps skipped in a row", at_least(1)},
      {"train.rollback_most", &r.train.rollback_most, "most rollbacks of a run", at_least(1)},
      {"train.rollback_skip", &r.train.rollback_skip,
       "a rollback skips the batches since its checkpoint; false: repeats them"},
      {"train.rollbacks", &r.train.rollbacks,
       "written by the run: step that diverged -> step it returned to"},
      untraced(
          {"train.out", &r.train.out, "folder of the runs' folders", TextCheck{"a folder", check_not_empty}}),
      recorded({"train.sample_tokens", &r.train.sample_tokens,
                "tokens of the text printed at the end; 0: none", between(0, 1 << 20)}),

      {"optim.learning_rate", &r.optim.learning_rate, "peak learning rate", above(0)},
      {"optim.beta1", &r.optim.beta1, "decay of the gradient mean", fraction_below_one},
      {"optim.beta2", &r.optim.beta2, "decay of the squared-gradient mean", fraction_below_one},
      {"optim.eps", &r.optim.eps, "added to the square root of the second moment", above(0)},
      {"optim.weight_decay", &r.optim.weight_decay, "decoupled weight decay, of matrices only", at_least(0)},
      {"optim.clip_norm", &r.optim.clip_norm, "largest norm of the whole gradient; 0: no clipping",
       at_least(0)},
      {"optim.start", &r.optim.start, "in a branch: step at which the moments were zero (--fresh optimizer)",
       between(0, 0x1p31)},

      {"schedule.kind", choice(r.schedule.kind, schedule_names),
       "learning rate after the warm-up; wsd: constant, then linear"},
      {"schedule.warmup_steps", &r.schedule.warmup_steps, "steps from 0 to the peak", at_least(0)},
      {"schedule.final_fraction", &r.schedule.final_fraction, "rate one step past the last, over the peak",
       between(0, 1)},
      {"schedule.decay_fraction", &r.schedule.decay_fraction, "wsd: share of the steps that decay",
       between(0, 1)},
      {"schedule.start", &r.schedule.start, "in a branch: first step of the schedule (--fresh schedule)",
       between(0, 0x1p31)},

      {"precision.weights", &r.precision.weights, "fprop.w and dgrad.w of linear layers in blocks",
       number_format},
      {"precision.activations", &r.precision.activations, "fprop.x and wgrad.x of linear layers in blocks",
       number_format},
      {"precision.gradients", &r.precision.gradients, "dgrad.dy and wgrad.dy of linear layers in blocks",
       number_format},
      {"precision.attention", &r.precision.attention, "the twelve operands of attention", number_format},
      {"precision.head", &r.precision.head, "the six operands of the head", number_format},
      {"precision.weight_average", &r.precision.weight_average,
       "decay a step of the moving averages that `ema` rounds weights by; 0: none", fraction_below_one},
      {"precision.switch_error", &r.precision.switch_error,
       "relative error of the weights' gradients above which a measured step begins the phase of the next "
       "rollback, without going back; 0: none",
       at_least(0)},
  };
  const std::vector<Knob> model = model_knobs(r.model);
  all.insert(std::ranges::find(all, "data", &Knob::section), model.begin(), model.end());
  for (const auto& more :
       {compute_knobs(r.compute), telemetry_knobs(r.telemetry, r.precision.switch_error > 0)})
    all.insert(all.end(), more.begin(), more.end());
  return all;
}

bool changes_numbers(Recipe recipe, std::string_view key) {
  for (const Knob& knob : knobs(recipe))
    if (knob.name == key) return knob.effect == Effect::numbers;
  return true;  // rules and phases
}

std::vector<Knob> knobs(PrecisionRule& rule) {
  return {
      {"precision.rules.layers", &rule.layers, "layers by pattern; none: all, the head and attention too",
       TextCheck{"one pattern of layer names, or several joined by '|' in one text", check_not_empty}},
      {"precision.rules.slots", &rule.slots,
       "slots by pattern, as \"fprop.x\", \"*.w\" or \"qk.*\"; none: all that enter GEMMs"},
      {"precision.rules.format", &rule.format, "how these slots round; required", rule_format},
  };
}

std::vector<Knob> knobs(PrecisionPhase& phase) {
  return {
      {"precision.phases.start", &phase.start, "steps after which its rules hold", between(0, 0x1p31)},
      {"precision.phases.start_tokens", &phase.start_tokens, "instead of start: after this many tokens",
       between(0, 0x1p62)},
      {"precision.phases.start_fraction", &phase.start_fraction,
       "instead of start: share of train.steps, rounded up to a step", fraction_below_one},
      {"precision.phases.start_of_decay", &phase.start_of_decay,
       "instead of start: where the learning rate begins to fall"},
      {"precision.phases.start_rollback", &phase.start_rollback,
       "instead of start: where the run's n-th rollback or switch leads", between(0, 0x1p31)},
  };
}

}  // namespace mxtape
