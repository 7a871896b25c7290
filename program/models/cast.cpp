#include "program/models/cast.h"

#include <algorithm>
#include <array>
#include <map>

#include "core/error.h"
#include "core/text/nearest_name.h"
#include "kernels/attention/slots.h"
#include "recipes/weight_average.h"

namespace mxtape {
namespace {

bool names_a_recipe(const std::string& word) {
  return word.find('/') != std::string::npos || word.ends_with(".toml");
}
/// "weights=mxfp4, ...": its first word has a '='.
bool names_operands(const std::string& word) {
  return !names_a_recipe(word) && word.find('=') < word.find_first_of(" ,");
}

void set_all(PrecisionConfig& precision, std::vector<std::string> slots, const std::string& format,
             const std::string& layers = "*") {
  precision.rules.push_back(
      {.layers = layers, .slots = std::move(slots), .format = format, .where = "--precision"});
}

/// What an operand's name stands for in a forward pass; later ones win.
struct NamedOperand {
  std::string_view name, layers;
  std::vector<std::string> slots;
};
const std::vector<std::string> attention_forward{"qk.*", "pv.*"};
const std::array named_operands{
    NamedOperand{"weights", "*", {"fprop.w"}}, NamedOperand{"activations", "*", {"fprop.x"}},
    NamedOperand{"attention", "*", attention_forward}, NamedOperand{"head", "head", {"fprop.w", "fprop.x"}}};

std::string without_blanks(const std::string& text) {
  const auto first = text.find_first_not_of(' ');
  return first == std::string::npos ? "" : text.substr(first, text.find_last_not_of(' ') - first + 1);
}

/// Formats by operand. Throws Error(usage).
std::map<std::string, Quantizer> formats_of_operands(const std::string& text) {
  const auto known = names_in(named_operands);
  std::map<std::string, Quantizer> formats;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    const std::string part = without_blanks(text.substr(begin, end - begin));
    const std::size_t sign = part.find('=');
    const std::string name = without_blanks(part.substr(0, sign));
    require(std::ranges::find(known, name) != known.end(), ExitCode::usage,
            "--precision '{}': no operand '{}'{}", text, name, suggestion(name, known));
    require(sign != std::string::npos, ExitCode::usage,
            "--precision '{}': '{}' has no format; want {}=FORMAT", text, name, name);
    const bool first = formats.emplace(name, parse_quantizer(without_blanks(part.substr(sign + 1)))).second;
    require(first, ExitCode::usage, "--precision '{}': '{}' twice; want it once", text, name);
    begin = end + 1;
  }
  return formats;
}

void set_operands(Recipe& recipe, const std::string& text) {
  const auto formats = formats_of_operands(text);
  for (const auto& operand : named_operands)
    if (const auto found = formats.find(std::string(operand.name)); found != formats.end())
      set_all(recipe.precision, operand.slots, to_text(found->second), std::string(operand.layers));
}

void set_f32_activations(Recipe& recipe) {
  set_all(recipe.precision, {"fprop.x", "out"}, "f32");
  if (!attention_layer_names(recipe.model).empty()) {
    std::vector<std::string> slots;
    for (const auto& slot : attention_slots) slots.emplace_back(slot.name);
    slots.emplace_back(score_slot.name);
    set_all(recipe.precision, std::move(slots), "f32");
  }
  recipe.compute.activations = ActivationType::f32;
}

}  // namespace

bool Cast::is_format() const {
  return precision != "recipe" && !names_a_recipe(precision) && !names_operands(precision);
}

double Cast::bits_per_element() const {
  if (names_operands(precision)) formats_of_operands(precision);
  return is_format() ? parse_quantizer(precision).bits_per_element() : 0;
}

bool Cast::is_f32() const { return is_format() && parse_quantizer(precision).is_identity(); }

void check_attention(bool attention, bool weights_only, const std::vector<std::string>& precisions) {
  if (!attention) return;
  require(!weights_only, ExitCode::usage,
          "--attention and --weights-only: with the second attention is f32; want one of them");
  require(std::ranges::any_of(precisions, [](const auto& p) { return Cast{p}.is_format(); }), ExitCode::usage,
          "--attention: it belongs to a --precision that is a single format, and there is none; operands are "
          "named as in \"weights=mxfp4, attention=mxfp8\"");
}

Recipe cast_recipe(const Recipe& trained, std::int64_t step, const Cast& cast) {
  Recipe recipe = trained;
  // Nothing is trained with it, and a packed model multiplies unpacked values.
  recipe.train.on_divergence = OnDivergence::stop;
  if (cast.precision != "recipe") {
    recipe.precision = {};
    recipe.compute.activations = ActivationType::f32;
    recipe.compute.attention = AttentionKernels::own;
    recipe.compute.gemm = GemmChoice::library;  // sources, if it has any, want values
  }
  if (names_a_recipe(cast.precision)) {
    const Recipe other = read_recipe_onto(recipe, cast.precision, {});
    recipe.precision = other.precision;
    recipe.compute.activations = other.compute.activations;
  } else if (names_operands(cast.precision)) {
    set_operands(recipe, cast.precision);
  } else if (cast.is_format()) {
    const std::string format = to_text(parse_quantizer(cast.precision));
    set_all(recipe.precision, {"fprop.w", "fprop.x"}, format);
    if (cast.attention) set_all(recipe.precision, attention_forward, format);
  }
  recipe.precision.rules = rules_at(recipe, step);
  recipe.precision.phases.clear();
  // Another phase may have asked averages.
  if (!validate_averages(recipe, precision_plan(recipe, step))) recipe.precision.weight_average = 0;
  if (cast.weights_only) set_f32_activations(recipe);
  if (cast.precision != "recipe" || cast.weights_only)
    recipe.compute.attention = AttentionKernels::own;  // cuDNN's is for one precision
  std::erase_if(recipe.origins, [](const auto& origin) {
    return origin.first.starts_with("precision.") || origin.first == "compute.activations" ||
           origin.first == "compute.attention" || origin.first == "compute.gemm" ||
           origin.first == "train.on_divergence";
  });
  return recipe;
}

PrecisionPlan cast_plan(const Recipe& recipe, std::int64_t step, const Cast& cast) {
  return precision_plan(cast_recipe(recipe, step, cast), step);
}

}  // namespace mxtape
