#include <fmt/ranges.h>

#include <utility>

#include "core/error.h"
#include "core/text/nearest_name.h"
#include "core/text/program_name.h"
#include "recipes/knobs.h"

namespace mxtape {
namespace {

/// What other trainers call it, and ours: nanoGPT's names, and those of PyTorch that they come from.
constexpr std::pair<std::string_view, std::string_view> foreign_names[] = {
    {"max_iters", "train.steps"},
    {"eval_interval", "train.eval_every"},
    {"eval_iters", "train.eval_windows"},
    {"always_save_checkpoint", "train.save_every"},
    {"gradient_accumulation_steps", "train.accumulation"},
    {"out_dir", "train.out"},
    {"dataset", "data.file"},
    {"block_size", "model.context"},
    {"n_layer", "model.layers"},
    {"n_head", "model.heads"},
    {"n_embd", "model.width"},
    {"vocab_size", "model.vocabulary"},
    {"lr", "optim.learning_rate"},
    {"grad_clip", "optim.clip_norm"},
    {"warmup_iters", "schedule.warmup_steps"},
    {"min_lr", "schedule.final_fraction"},
    {"dtype", "precision.weights"},
    {"lr_decay_iters", "train.steps"},
};

/// Refuses "--name" if no key of a recipe is called so, as one without a dot then is a misspelt option of the
/// command, or a key whose section was forgotten. Misspelt keys with a section are the reader's to refuse.
void require_key_or_option(const std::string& name, std::span<const std::string> options) {
  if (name.find('.') != std::string::npos) return;
  Recipe recipe;
  std::vector<std::string> words, completed;
  for (const auto& option : options) words.push_back("--" + option);
  for (const Knob& knob : knobs(recipe)) {
    if (knob.name == name) return;
    if (knob.key() == name) completed.push_back(fmt::format("--{}", knob.name));
    if (knob.section().empty()) words.push_back(fmt::format("--{}", knob.name));
  }
  for (const auto& [theirs, ours] : foreign_names)
    if (theirs == name) completed.push_back(fmt::format("--{}", ours));
  const std::vector<std::string_view> known(words.begin(), words.end());
  std::string hint = suggestion("--" + name, known);
  if (!completed.empty())
    hint = fmt::format("; did you mean '{}'?", fmt::join(completed, "' or '"));
  else if (nearest_names("--" + name, known).empty())
    hint += fmt::format(", and the keys that `{} recipes --reference` lists", program_name());
  fail(ExitCode::usage, "command line: unknown option '--{}'{}", name, hint);
}

}  // namespace

std::vector<std::string> overrides_from_arguments(std::span<const std::string> arguments,
                                                  std::span<const std::string> options) {
  std::vector<std::string> overrides;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const std::string& word = arguments[i];
    require(word.size() > 2 && word.starts_with("--"), ExitCode::usage,
            "command line: '{}'; want --section.key=value to change a recipe", word);
    require_key_or_option(word.substr(2, word.find('=') - 2), options);
    if (word.find('=') != std::string::npos) {
      overrides.push_back(word.substr(2));
      continue;
    }
    // The next word is the value even if it starts with '-': no recipe key goes without one.
    require(i + 1 < arguments.size() && !arguments[i + 1].starts_with("--"), ExitCode::usage,
            "command line: '{0}' has no value; want {0}=value", word);
    overrides.push_back(word.substr(2) + "=" + arguments[++i]);
  }
  return overrides;
}

}  // namespace mxtape
