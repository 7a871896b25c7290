#include "recipes/knobs.h"

#include <fmt/format.h>

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
std::string_view Knob::key() const {
  const auto dot = name.rfind('.');
  return dot == std::string_view::npos ? name : name.substr(dot + 1);
}

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
      recorded({"name", &r.name,
                "the run's folder is <train.out>/<name>; the recipe file's name if not given",
                TextCheck{"a name for a folder", check_name}}),
      recorded({"description", &r.description, "one line for `mxtape recipes`"}),
      {"seed", &r.seed, "of initialisation, data order, dropout and stochastic rounding", between(0, 0x1p63)},

      recorded({"data.file", &r.data.file,
                "token file from `mxtape prepare` or `mxtape corpus`, relative to the working directory"}),

      {"train.init", &r.train.init,
       "a run, checkpoint, Hugging Face folder or llm.c file: a new run begins with its weights and [model]"},
      {"train.steps", &r.train.steps, "optimizer steps", between(1, 0x1p31)},
      {"train.batch_size", &r.train.batch_size, "sequences of a micro-batch", between(1, 1 << 20)},
      {"train.accumulation", &r.train.accumulation, "micro-batches of a strand, one after the other",
       between(1, 1 << 20)},
      {"train.strands", &r.train.strands,
       "strands of an optimizer step, whose gradients are summed in one fixed order: what devices share",
       between(1, 1 << 16)},
      untraced({"train.verify_every", &r.train.verify_every,
                "several devices: steps between comparisons of their weights; 0: only before saving",
                at_least(0)}),
      untraced({"train.gather", choice(r.train.gather, gather_names),
                "several devices: what of new weights they send each other: f32 values, or codes and scales "
                "of the copies that a step multiplies by, where it reads nothing else (docs/devices.md)"}),
      recorded({"train.eval_every", &r.train.eval_every, "steps between validations; 0: only at the end",
                at_least(0)}),
      recorded({"train.eval_windows", NamedInteger{&r.train.eval_windows, windows_names},
                "most sequences of a validation, from the start of the split; all or 0: the whole split; "
                "auto: what takes at most a fifth of the work of the steps between two validations",
                at_least(0)}),
      recorded({"train.save_every", &r.train.save_every, "steps between checkpoints; 0: not by step",
                at_least(0)}),
      recorded({"train.save_minutes", &r.train.save_minutes,
                "minutes after which a checkpoint is written in any case; 0: never", between(0, 1 << 20)}),
      recorded({"train.keep", &r.train.keep, "newest checkpoints that are kept", at_least(1)}),
      recorded({"train.keep_every", &r.train.keep_every,
                "a checkpoint at each multiple of this step, which stays; 0: none", at_least(0)}),
      recorded({"train.keep_best", &r.train.keep_best,
                "a checkpoint at each validation that is the best so far; the best one stays"}),
      {"train.on_divergence", choice(r.train.on_divergence, divergence_names),
       "a loss or gradient that is not finite; skip: the step changes no weight; rollback: back to the last "
       "checkpoint"},
      {"train.skip_most", &r.train.skip_most, "steps in a row that may be skipped", at_least(1)},
      {"train.rollback_most", &r.train.rollback_most, "times that a run may go back", at_least(1)},
      {"train.rollback_skip", &r.train.rollback_skip,
       "a rollback passes over the batches since its checkpoint; false: they come again"},
      {"train.rollbacks", &r.train.rollbacks,
       "written by the run: where it diverged -> where it went back to"},
      untraced({"train.out", &r.train.out, "folder that holds the runs' folders",
                TextCheck{"a folder", check_not_empty}}),
      recorded({"train.sample_tokens", &r.train.sample_tokens,
                "length of the text printed at the end; 0: none", between(0, 1 << 20)}),

      {"optim.learning_rate", &r.optim.learning_rate, "peak, before the schedule", above(0)},
      {"optim.beta1", &r.optim.beta1, "decay of the gradient mean", fraction_below_one},
      {"optim.beta2", &r.optim.beta2, "decay of the squared-gradient mean", fraction_below_one},
      {"optim.eps", &r.optim.eps, "added to the square root of the second moment", above(0)},
      {"optim.weight_decay", &r.optim.weight_decay, "decoupled, on matrices only", at_least(0)},
      {"optim.clip_norm", &r.optim.clip_norm, "largest norm of the whole gradient; 0: no clipping",
       at_least(0)},
      {"optim.start", &r.optim.start,
       "of a branch: the step at which the moments were zero (--fresh optimizer)", between(0, 0x1p31)},

      {"schedule.kind", choice(r.schedule.kind, schedule_names),
       "course of the learning rate after the warm-up; wsd: stay, then straight down"},
      {"schedule.warmup_steps", &r.schedule.warmup_steps, "steps from 0 to the peak", at_least(0)},
      {"schedule.final_fraction", &r.schedule.final_fraction,
       "learning rate of the end, as a share of the peak", between(0, 1)},
      {"schedule.decay_fraction", &r.schedule.decay_fraction, "wsd: share of the steps that go down",
       between(0, 1)},
      {"schedule.start", &r.schedule.start,
       "of a branch: the step that the schedule counts as its first (--fresh schedule)", between(0, 0x1p31)},

      {"precision.weights", &r.precision.weights, "slots fprop.w dgrad.w of the linear layers in blocks",
       number_format},
      {"precision.activations", &r.precision.activations,
       "slots fprop.x wgrad.x of the linear layers in blocks", number_format},
      {"precision.gradients", &r.precision.gradients,
       "slots dgrad.dy wgrad.dy of the linear layers in blocks", number_format},
      {"precision.attention", &r.precision.attention, "all slots of attention", number_format},
      {"precision.head", &r.precision.head, "all slots of the head", number_format},

  };
  const std::vector<Knob> model = model_knobs(r.model);
  all.insert(std::find_if(all.begin(), all.end(), [](const Knob& knob) { return knob.section() == "data"; }),
             model.begin(), model.end());
  const std::vector<Knob> compute = compute_knobs(r.compute);
  all.insert(all.end(), compute.begin(), compute.end());
  const std::vector<Knob> telemetry = telemetry_knobs(r.telemetry);
  all.insert(all.end(), telemetry.begin(), telemetry.end());
  return all;
}

std::vector<Knob> knobs(PrecisionRule& rule) {
  return {
      {"precision.rules.layers", &rule.layers,
       "pattern of layer names, several with '|': \"blocks.*.mlp.*\", \"blocks[:2].*|blocks[-8:].*\" (first "
       "and last), \"head\"; none: all layers, the head and attention too",
       TextCheck{"one pattern of layer names, or several joined by '|' in one text", check_not_empty}},
      {"precision.rules.slots", &rule.slots,
       "globs over slot names: \"fprop.x\", \"*.w\", \"wgrad.hadamard\", \"qk.*\"; none: all slots of GEMMs"},
      {"precision.rules.format", &rule.format, "how these slots round; required", rule_format},
  };
}

std::vector<Knob> knobs(PrecisionPhase& phase) {
  return {
      {"precision.phases.start", &phase.start, "optimizer step from which the phase's rules hold",
       between(0, 0x1p31)},
      {"precision.phases.start_tokens", &phase.start_tokens,
       "instead of start: from the first step before which that many tokens were trained on",
       between(0, 0x1p62)},
      {"precision.phases.start_fraction", &phase.start_fraction,
       "instead of start: from that share of train.steps on, rounded up to a step", fraction_below_one},
      {"precision.phases.start_of_decay", &phase.start_of_decay,
       "instead of start: from the step from which the learning rate goes down"},
      {"precision.phases.start_rollback", &phase.start_rollback,
       "instead of start: from the step to which the run's n-th rollback leads", between(0, 0x1p31)},
  };
}

}  // namespace mxtape
