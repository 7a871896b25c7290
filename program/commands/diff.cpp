#include "program/models/difference.h"
#include "program/records/run_name.h"
#include "program/show/command.h"
#include "program/show/report.h"

namespace mxtape {
namespace {

using Tensor = CheckpointDifference::Tensor;

struct Arguments {
  std::string a, b;
};

/// Tokenizers are named, not listed: their JSON may have a megabyte.
std::string text_of(const CheckpointDifference::Field& field, const SavedModel& a, const SavedModel& b) {
  if (field.name != "tokenizer") return fmt::format("{:<11} {} -> {}", field.name, field.a, field.b);
  const Tokenizer &of_a = a.header.tokenizer, &of_b = b.header.tokenizer;
  const std::string first = of_b.first_difference(of_a);
  return fmt::format("{:<11} {} -> {}{}", field.name, of_a.text(), of_b.text(),
                     first.empty() ? "" : ": " + first);
}

void fill(Table& table, const std::vector<Tensor>& tensors) {
  for (const Tensor& tensor : tensors) {
    const TensorDifference& d = tensor.values;
    const bool compared = tensor.misfit.empty();
    const auto value = [&](auto x, const char* form = "{}") {
      return compared ? Value(double(x), fmt::format("{}", double(x)), fmt::format(fmt::runtime(form), x))
                      : Value(nullptr, "nothing was compared");
    };
    const auto first = d.count ? indices_of(d.first, tensor.dims) : std::vector<std::int64_t>();
    table
        .row(tensor.name, tensor.misfit, d.count, Value(first, "", indices_text(first)), value(d.a),
             value(d.b), value(d.largest, "{:.4g}"))
        .rest = tensor.misfit;
  }
}

Report run(const Arguments& names) {
  const std::string path_a = checkpoint_of(names.a).string(), path_b = checkpoint_of(names.b).string();
  const SavedModel a = open_saved_model(path_a), b = open_saved_model(path_b);
  const CheckpointDifference difference = difference_of(a, b);
  Report out;
  Table header("field; a; b"), recipe("key; change");
  out.line("A           {}\nB           {}", path_a, path_b);
  for (const auto& field : difference.header) {
    header.row(field.name, field.a, field.b);
    out.line("{}", text_of(field, a, b));
  }
  for (const auto& change : difference.recipe) {
    const auto colon = change.find(": ");  // no key holds one
    recipe.row(change.substr(0, colon), change.substr(colon + 2));
    out.line("recipe      {}", change);
  }
  out.put("a", path_a, "b", path_b, "same", difference.none(), "header", header, "recipe", recipe,
          "all_tensors", difference.all_tensors);
  fill(out.table("tensors",
                 "name|tensor; misfit; differ|differ|>10; first|first at|>14; a|A|>15; b|B|>15; "
                 "largest|largest|>10"),
       difference.tensors);
  if (difference.none()) {
    out.line("the same: step {}, {} tensors", a.header.step, difference.all_tensors);
    return out;
  }
  out.line("{} of {} tensors differ", difference.tensors.size(), difference.all_tensors);
  const auto counted = [](std::size_t count, const char* what) {
    return fmt::format("{} {}{}", count, what, count == 1 ? "" : "s");
  };
  out.problems.emplace_back(
      ExitCode::differs,
      fmt::format("{} and {} differ: {} of {} tensors, {} of the recipe, {}", path_a, path_b,
                  difference.tensors.size(), difference.all_tensors, counted(difference.recipe.size(), "key"),
                  counted(difference.header.size(), "other field")));
  return out;
}

Options options(Arguments& a) {
  return {{"A", &a.a, model_name_help}, {"B", &a.b, "another one, or a later step of the same: RUN@STEP"}};
}

}  // namespace

Command commands::diff() {
  return {"diff", "Compare two checkpoints, or packed models, bit by bit; exit 5 if they differ",
          with(options, run)};
}

}  // namespace mxtape
