#include <fmt/ranges.h>

#include <sstream>

#include "autograd/slots.h"
#include "recipes/knobs.h"
#include "recipes/shipped.h"

namespace mxtape {
namespace {

constexpr std::string_view introduction = R"(# Recipes

Written by `mxtape recipes --reference`: do not edit.

A recipe is a TOML file that says what a run is. The last to set a key wins:

1. the defaults below;
2. the recipes named in `extends`, in order, each after what it extends itself. One named several times counts once, at
   its last place;
3. the file;
4. the command line: `--section.key=value` or `--section.key value`.

`extends` is a file relative to the one that names it, a shipped recipe, or a list of these. `name` and `description` are
not inherited. A value has its default's type. An integer may stand for a number with a point, and `1e-4` is one.
Unknown or repeated keys, other types and numbers out of range are errors that say what is wanted.

`mxtape check RECIPE` prints the keys that are set and who set them; `--all` prints every key.
)";

constexpr std::string_view precision_text = R"(
## Precision

[formats.md](formats.md) says how formats are written. Later wins:

1. `precision.weights`, `activations`, `gradients`, `attention` and `head`;
2. `[[precision.rules]]`, in order, after those of the recipes in `extends`;
3. the rules of each `[[precision.phases]]` that has started, by their starts.

A rule names layers and slots by patterns:

* `*`: any letters, dots included. Of layers, `a|b`: either.
* `blocks.-1.*`: the last block.
* `blocks[:2].*`, `blocks[2:-2].*`: the first two; all but two at each end, as Python slices.

A pattern that matches nothing is an error, as is a slice that counts more blocks than the model has.

A rule replaces the whole format of its slots, rounding included. A rule without slots also reaches the twelve slots of
each attention layer that its pattern matches, as `blocks.0.*` does.

Three kinds of format set slots of their own:

* `hadamard=16 signs=run`: a Hadamard transform of a GEMM's operands; 0: none. Signs: `none`, or drawn once a `run`, each
  `step` or each `call` (wgrad: micro-batch; fprop and dgrad: step).
* `source=master`, the default: backward rounds the high-precision tensor.
* `source=forward`: backward rounds the forward's rounded operand again.
* `source=shared`: backward takes the forward's rounded operand as it is. The slot's own format has no effect; a Hadamard
  transform of that GEMM is refused.
* `ste=identity`, `ste=mask`, `ste=dge k=5 most=3`: the [derivative](numerics.md#straight-through-gradients) of rounding
  `fprop.x` or `fprop.w`.

Five slots enter no GEMM: `out`, `scores`, `norm.gain`, `embedding.table`, and `sum.dw` of
[several devices](devices.md#gradients-in-few-bits). Only a pattern with letters of their names reaches them. Backward takes
the first four roundings for the identity.

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

Layers:

* linear: `blocks.i.attn.qkv`, `blocks.i.attn.out`, `blocks.i.mlp.up` (SwiGLU: `gate_up`), `blocks.i.mlp.down`, `head`;
* attention: `blocks.i.attn`;
* norms: `blocks.i.norm1`, `blocks.i.norm2`, `norm`; with `qk_norm` `blocks.i.attn.q_norm`, `blocks.i.attn.k_norm`;
* `embedding`.

Slots:

)";

constexpr std::string_view shipped_text = R"(
## Shipped recipes

`mxtape recipes` lists them with a sentence each, `mxtape recipes NAME` prints one. Those named after formats alone
quantize the linear layers of the blocks; attention and head are bf16. [papers.md](papers.md) has those of papers. For
`extends` or `--precision`:
)";

template <class Slots>
void write_names(std::string& out, const Slots& slots) {
  for (const auto& slot : slots) out += fmt::format(" `{}`", slot.name);
}

/// Lines of TOML with the defaults, and the meanings as comments.
void write_knobs(std::string& out, std::span<const Knob> knobs) {
  constexpr std::size_t column = 26, width = 92;
  out += "```toml\n";
  for (const Knob& knob : knobs) {
    std::string line = fmt::format("{:<{}} #", fmt::format("{} = {}", knob.key(), value_text(knob)), column);
    std::string meaning(knob.help);
    if (const auto* choice = std::get_if<Choice>(&knob.field))
      meaning = fmt::format("{}; {}", fmt::join(choice->names, ", "), meaning);
    std::istringstream words(meaning);
    for (std::string word; words >> word;) {
      if (line.size() + 1 + word.size() > width) {
        out += line + "\n";
        line = std::string(column + 1, ' ') + "#";
      }
      line += " " + word;
    }
    out += line + "\n";
  }
  out += "```\n";
}

void write_keys(std::string& out, std::span<const Knob> knobs) {
  for (const Knob& knob : knobs) out += fmt::format("* `{}`: {}\n", knob.key(), knob.help);
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
    write_knobs(out, {begin, end});
    begin = end;
  }
  out += precision_text;
  out += "*";
  write_names(out, linear_slots);
  write_names(out, rotation_slots);
  write_names(out, source_slots);
  write_names(out, straight_through_slots);
  out += ": of [linear layers](numerics.md#linear-layers);\n*";
  write_names(out, attention_slots);
  out += fmt::format(
      ": of [attention](numerics.md#attention);\n* `out`: of linear layers: Y after the bias, along "
      "out-features;\n* `{}`: of attention: S before it is scaled, along keys;\n* `{}`: of norms, "
      "along channels;\n* `{}`: of the embedding, along channels;\n* `{}`: of linear layers and the "
      "embedding: a strand's dW, along in-features.\n",
      score_slot.name, name_of(Slot::gain), name_of(Slot::table), name_of(Slot::sum_dw));

  PrecisionRule rule;
  PrecisionPhase phase;
  out += "\n### [[precision.rules]] and [[precision.phases.rules]]\n\n";
  write_keys(out, knobs(rule));
  out += "\n### [[precision.phases]]\n\n";
  write_keys(out, knobs(phase));

  out += shipped_text;
  for (const auto& shipped : shipped_recipes())
    if (shipped.name.starts_with("precision/"))
      out += fmt::format("{}`{}`", out.ends_with('\n') ? "" : ", ", shipped.name);
  return out + "\n";
}

}  // namespace mxtape
