#include <fmt/format.h>

#include <iterator>
#include <map>

#include "autograd/slots.h"
#include "recipes/knobs.h"
#include "recipes/shipped.h"

namespace mxtape {
namespace {

constexpr std::string_view introduction = R"(# Recipes

Written by `mxtape recipes --reference > docs/recipes.md` from the table that also reads recipes: do not edit.

A recipe is a TOML file that says what a run is. Who sets a key last wins:

1. the defaults below;
2. the recipes that the file names in `extends`, in order, each after what it extends itself. One that is named in several
   places is read once, at the last one;
3. the file;
4. the command line: `--section.key=value` or `--section.key value`.

`extends` is a file's name, relative to the file that says it, the name of a shipped recipe, or a list of these. `name`
and `description` are not inherited.

An unknown key, one that is given twice, another type or a number out of range ends with exit code 2 and the nearest known
name. Integers are accepted for numbers; `1e-4` is a number.

`mxtape check RECIPE` prints the keys that somebody set, and by whom; `--all` prints every key. A run's folder keeps the
resolved text; where a resume changed it, the earlier one stays as `recipe.until_step_<step>.toml`. Checkpoints hold it
without keys on which no bit depends.
)";

constexpr std::string_view precision_text = R"(
## Precision

[formats.md](formats.md) has the words of formats, `mxtape formats` lists them. Later wins:

1. `precision.weights`, `activations`, `gradients`, `attention` and `head`;
2. `[[precision.rules]]`, in order; those of a file come after those of what it extends;
3. the rules of each `[[precision.phases]]` that has started, by their starts.

A rule names layers and slots by patterns: `*` stands for any letters, `|` separates alternatives, and blocks may be counted
from the end or sliced as in Python. `blocks.-1.*` is the last block, `blocks[:2].*` the first two, `blocks[2:-2].*` all but
two at each end. A pattern that matches nothing is an error, and so is a slice that counts more blocks than the model has.

A rule's format replaces the whole format of its slots, rounding included. A rule without slots reaches attention's twelve
as well, wherever its pattern names `blocks.N.attn`, as `blocks.0.*` does; `mxtape check` says so where
`precision.attention` is f32.

These formats set slots of their own among those that a rule names:

* `hadamard=16 signs=run`: a Hadamard transform of a GEMM; `hadamard=0` is none. Signs are `none`, or drawn once for the
  `run`, each `step`, or each `call`: in wgrad each micro-batch, in fprop and dgrad each step, as the weight's rotated copy
  serves a whole step.
* `source=master`, `forward` or `shared`: what backward's copy of a tensor is made from. `master`, the default, rounds the
  high-precision tensor. `forward` rounds what the forward multiplied by once more. `shared` takes the forward's values as
  they are: the slot's own format has no effect, and a Hadamard transform of that GEMM is refused. Values that fprop
  rotated stay so, and the gradient is rotated back after the GEMM.
* `ste=identity`, `ste=mask` or `ste=dge k=5 most=3`: the derivative of the rounding of `fprop.x` and `fprop.w`. `mask` is 0
  beyond the largest element, else 1; `dge` a slope of at most `most`
  ([numerics.md](numerics.md#straight-through-gradients)).

The last five slots below enter no GEMM. Only a pattern that says their names reaches them, as `*.gain` or `out` do. Backward
takes the rounding of the first four for the identity.

`sum.dw` rounds a strand's gradient of a layer's matrix, before the strands are added
([devices.md](devices.md#gradients-in-few-bits)). It wants `train.strands` above 1, and a format whose scales keep what is
not finite. Gradients of vectors stay f32, and those of a tied head are the embedding's.

```toml
[precision]
weights = "mxfp4 rule=even"
activations = "mxfp4 rule=even"
gradients = "mxfp4 rule=even round=stochastic"

[[precision.rules]]              # the linear layers of the first and the last block in bf16
layers = "blocks.0.*|blocks.-1.*"
slots = ["fprop.*", "dgrad.*", "wgrad.*"]
format = "bf16"

[[precision.rules]]
layers = "blocks.*"
slots = ["wgrad.hadamard"]
format = "hadamard=16 signs=run"

[[precision.phases]]             # the forward pass in bf16 for the end of the run
start = 1800
[[precision.phases.rules]]
layers = "blocks.*"
slots = ["fprop.x", "fprop.w"]
format = "bf16"
```

Layers of a model with N blocks: `blocks.0.attn.qkv`, `blocks.0.attn.out`, `blocks.0.mlp.up`, `blocks.0.mlp.down` and so
on to `blocks.<N-1>.mlp.down`, `head` (linear layers), `blocks.0.attn` to `blocks.<N-1>.attn` (attention),
`blocks.0.norm1`, `blocks.0.norm2` to `blocks.<N-1>.norm2`, `norm` (norms), and `embedding`. With `mlp = "swiglu"` the first
matrix of the MLP is `blocks.0.mlp.gate_up`; `qk_norm` adds the norms `blocks.0.attn.q_norm` and `blocks.0.attn.k_norm`.

| slot | of | operand of | blocks run along |
|---|---|---|---|
)";

struct SlotText {
  std::string_view gemm, along;
};

/// By the part of a slot's name before the dot; attention's blocks by the whole name.
SlotText slot_text(std::string_view slot) {
  static const std::map<std::string_view, SlotText> texts{
      {"fprop", {"Y = X W^T", "in-features"}},
      {"dgrad", {"dX = dY W", "out-features"}},
      {"wgrad", {"dW = dY^T X", "rows (tokens)"}},
      {"qk", {"S = Q K^T", "head width"}},
      {"pv", {"O = P V", "keys"}},
      {"dv", {"dV = P^T dO", "queries"}},
      {"dp", {"dP = dO V^T", "head width"}},
      {"dq", {"dQ = dS K", "keys"}},
      {"dk", {"dK = dS^T Q", "queries"}},
  };
  return texts.at(slot.substr(0, slot.find('.')));
}

template <class Slots>
void write_slots(std::string& out, const Slots& slots, std::string_view of) {
  for (const auto& slot : slots) {
    const SlotText text = slot_text(slot.name);
    fmt::format_to(std::back_inserter(out), "| `{}` | {} | {} | {} |\n", slot.name, of, text.gemm,
                   text.along);
  }
}

void write_knobs(std::string& out, std::span<const Knob> knobs, bool with_default) {
  out += with_default ? "| key | default | accepts | meaning |\n|---|---|---|---|\n"
                      : "| key | accepts | meaning |\n|---|---|---|\n";
  for (const Knob& knob : knobs) {
    std::string help;
    for (const char c : knob.help) help += c == '|' ? std::string("\\|") : std::string(1, c);
    std::string accepts;
    for (const char c : wanted_text(knob)) accepts += c == '|' ? std::string("\\|") : std::string(1, c);
    const std::string value = with_default ? fmt::format(" `{}` |", value_text(knob)) : "";
    fmt::format_to(std::back_inserter(out), "| `{}` |{} {} | {} |\n", knob.key(), value, accepts, help);
  }
}

}  // namespace

std::string recipe_reference() {
  std::string out(introduction);
  Recipe recipe;
  const auto all = knobs(recipe);
  for (auto begin = all.begin(); begin != all.end();) {
    auto end = begin;
    while (end != all.end() && end->section() == begin->section()) ++end;
    out += begin->section().empty() ? "\n## Before the first section\n\n"
                                    : fmt::format("\n## [{}]\n\n", begin->section());
    write_knobs(out, {begin, end}, true);
    begin = end;
  }
  out += precision_text;
  write_slots(out, linear_slots, "linear layers");
  write_slots(out, rotation_slots, "linear layers");
  write_slots(out, source_slots, "linear layers");
  write_slots(out, straight_through_slots, "linear layers");
  write_slots(out, attention_slots, "attention");
  out += "| `out` | linear layers | none: Y | out-features |\n";
  fmt::format_to(std::back_inserter(out),
                 "| `{}` | attention | none: S = Q K^T, before it is scaled | keys |\n", score_slot.name);
  fmt::format_to(std::back_inserter(out), "| `{}` | norms | none | channels |\n", name_of(Slot::gain));
  fmt::format_to(std::back_inserter(out), "| `{}` | embedding | none | channels |\n", name_of(Slot::table));
  fmt::format_to(std::back_inserter(out),
                 "| `{}` | linear layers, embedding | none: a strand's dW | in-features |\n",
                 name_of(Slot::sum_dw));

  PrecisionRule rule;
  PrecisionPhase phase;
  out += "\n### [[precision.rules]] and [[precision.phases.rules]]\n\n";
  write_knobs(out, knobs(rule), false);
  out += "\n### [[precision.phases]]\n\n";
  write_knobs(out, knobs(phase), false);

  out +=
      "\n## Shipped recipes\n\n`mxtape recipes NAME` prints one as it is written.\n\n| name | what it is "
      "|\n|---|---|\n";
  for (const auto& shipped : shipped_recipes())
    fmt::format_to(std::back_inserter(out), "| `{}` | {} |\n", shipped.name,
                   read_recipe(std::string(shipped.name)).description);
  return out;
}

}  // namespace mxtape
