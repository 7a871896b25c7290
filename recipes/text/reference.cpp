#include "recipes/text/reference.h"

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

A recipe is a TOML file that says what a run is. A key that nobody sets keeps its default, so a recipe is a list of
differences. Who sets a key last wins:

1. the defaults below;
2. the recipes that the file names in `extends`, in order, each after what it extends itself. One that is named in several
   places is read once, and stands at the last one;
3. the file;
4. the command line: `--section.key=value` or `--section.key value`.

`extends` is a file's name, relative to the file that says it, the name of a shipped recipe, or a list of these. `name`
and `description` are not inherited.

An unknown key, one that is given twice, another type or a number out of range stops the program with exit code 2 and the
place, the value found, what is wanted and the nearest known name. Integers are accepted for numbers; `1e-4` is a number.

`mxtape check RECIPE` prints the keys that somebody set, with their values and who set them, the precision of every GEMM,
memory and disk, and what would fail later. `--all` prints every key. The resolved text is kept beside the log of every run;
where a resume changed it, the earlier one stays there as `recipe.until_step_<step>.toml`. Every checkpoint holds it without
keys on which no bit depends.
)";

constexpr std::string_view precision_text = R"(
## Precision

Formats are texts such as `mxfp4`, `nvfp4 block=16x16` or `e2m1 block=32 scale=e8m0 rule=even round=stochastic`:
docs/formats.md has the words, `mxtape formats` the formats. What rounds to what is decided in this order, later wins:

1. `precision.weights`, `activations`, `gradients`, `attention` and `head`;
2. `[[precision.rules]]`, in order; those of a file come after those of what it extends;
3. the rules of each `[[precision.phases]]` that has started, by their starts. One with `start_rollback` starts where a
   rollback of the run leads (docs/training.md).

A rule names layers and slots by patterns, in which `*` stands for any letters, `|` separates alternatives and blocks may be
counted from the end: `blocks.-1.*` is the last one. Python's slices name several: `blocks[:2].*` the first two,
`blocks[-8:].mlp.*` the MLPs of the last eight, `blocks[2:-2].*` all but two at each end. A pattern that matches nothing is
an error, and so is a slice that counts more blocks than the model has. A rule's format replaces the whole format of its
slots, rounding included: a rule without `round=stochastic` rounds to nearest. A rule without slots reaches attention's
twelve as well, wherever its pattern names `blocks.N.attn`, as `blocks.0.*` does; `mxtape check` says so where
`precision.attention` is f32.

A rule whose format is a Hadamard transform (`hadamard=16 signs=run`; `hadamard=0` is none) sets the hadamard slots among
those that it names, any other rule the rest. Signs are `none`, or are drawn once for the `run`, once each `step`, or with
`call` for each GEMM of each layer. `call` in fprop and dgrad still means once per optimizer step, because the weight's
rotated copy serves all micro-batches of a step; in wgrad it means each micro-batch.

In the same way `source=master`, `forward` or `shared` sets what backward's copy of a tensor is made from: of the weight in
`dgrad.source`, of the activation in `wgrad.source`. `master`, the default, rounds the high-precision tensor. `forward`
rounds what the forward multiplied by once more, with draws of its own. `shared` takes the forward's values as they are: the
slot's own format has no effect then, and a Hadamard transform of that GEMM is refused. Where fprop has a Hadamard
transform, values from the forward are still rotated, and the gradient is rotated back after the GEMM.

`ste=identity`, `ste=mask` or `ste=dge k=5 most=3` sets what backward takes for the derivative of the rounding of
`fprop.x` and `fprop.w`, in `fprop.x.ste` and `fprop.w.ste`. `mask` is 0 where |x / S| is beyond the largest element, else 1.
`dge` is the slope of a curve between the steps, at most `most`, and 0 beyond the largest element
([numerics.md](numerics.md#straight-through-gradients)). For x both keep x itself for backward.

The last five slots below enter no GEMM: a linear layer's result, attention's scores, norms' gains, the token table, a
strand's gradient. Only a pattern that says their names reaches them, as `*.gain` or `out` do; `*` and a rule without
slots do not. Backward takes the rounding of the first four for the identity.

`sum.dw` rounds the gradient of a layer's matrix that a strand has given, before the strands are added
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
