#include <algorithm>
#include <cstdio>

#include "program/checkpoints/difference.h"
#include "program/command.h"
#include "program/run_name.h"
#include "program/show/report.h"

namespace mxtape {
namespace {

using Tensor = CheckpointDifference::Tensor;

struct Pair {
  std::filesystem::path a, b;
};

/// Tokenizers are named, not listed: their JSON may have a megabyte.
void print_header_field(const CheckpointDifference::Field& field, const SavedModel& a, const SavedModel& b) {
  if (field.name != "tokenizer") return fmt::print("{:<11} {} -> {}\n", field.name, field.a, field.b);
  const Tokenizer &of_a = a.header.tokenizer, &of_b = b.header.tokenizer;
  const std::string first = of_b.first_difference(of_a);
  fmt::print("{:<11} {} -> {}{}\n", field.name, of_a.text(), of_b.text(), first.empty() ? "" : ": " + first);
}

void print_tensors(const std::vector<Tensor>& tensors) {
  if (tensors.empty()) return;
  std::size_t width = 6;
  for (const Tensor& tensor : tensors) width = std::max(width, tensor.name.size());
  fmt::print("{:<{}}  {:>10}  {:>14}  {:>15}  {:>15}  {:>10}\n", "tensor", width, "differ", "first at", "A",
             "B", "largest");
  for (const Tensor& tensor : tensors) {
    const TensorDifference& d = tensor.values;
    if (!tensor.misfit.empty())
      fmt::print("{:<{}}  {}\n", tensor.name, width, tensor.misfit);
    else
      fmt::print("{:<{}}  {:>10}  {:>14}  {:>15}  {:>15}  {:>10.4g}\n", tensor.name, width, d.count,
                 indices_text(indices_of(d.first, tensor.dims)), d.a, d.b, d.largest);
  }
}

void print_difference(const Pair& files, const SavedModel& a, const SavedModel& b,
                      const CheckpointDifference& difference) {
  fmt::print("A           {}\nB           {}\n", files.a.string(), files.b.string());
  for (const auto& field : difference.header) print_header_field(field, a, b);
  for (const auto& change : difference.recipe) fmt::print("recipe      {}\n", change);
  print_tensors(difference.tensors);
  if (difference.none())
    fmt::print("the same: step {}, {} tensors\n", a.header.step, difference.all_tensors);
  else
    fmt::print("{} of {} tensors differ\n", difference.tensors.size(), difference.all_tensors);
}

void print_difference_json(const Pair& files, const CheckpointDifference& difference) {
  Table header("field; a; b"), recipe("key; change"), tensors("name; misfit; differ; first; a; b; largest");
  for (const auto& field : difference.header) header.row(field.name, field.a, field.b);
  for (const auto& change : difference.recipe) {
    const auto colon = change.find(": ");  // no key holds one
    recipe.row(change.substr(0, colon), change.substr(colon + 2));
  }
  for (const Tensor& tensor : difference.tensors) {
    const TensorDifference& d = tensor.values;
    const auto value = [&](double x) {
      const bool compared = tensor.misfit.empty();
      return Value(compared ? std::optional(x) : std::nullopt,
                   compared ? fmt::format("{}", x) : "nothing was compared");
    };
    tensors.row(tensor.name, tensor.misfit, d.count,
                d.count ? indices_of(d.first, tensor.dims) : std::vector<std::int64_t>(), value(double(d.a)),
                value(double(d.b)), value(d.largest));
  }
  print_json(object("a", files.a.string(), "b", files.b.string(), "same", difference.none(), "header",
                    header.json(), "recipe", recipe.json(), "all_tensors", difference.all_tensors, "tensors",
                    tensors.json()));
}

void run(const Pair& files, bool json) {
  const SavedModel a = open_saved_model(files.a), b = open_saved_model(files.b);
  const CheckpointDifference difference = difference_of(a, b);
  if (json)
    print_difference_json(files, difference);
  else
    print_difference(files, a, b, difference);
  if (difference.none()) return;
  std::fflush(stdout);
  const auto counted = [](std::size_t count, const char* what) {
    return fmt::format("{} {}{}", count, what, count == 1 ? "" : "s");
  };
  fail(ExitCode::differs, "{} and {} differ: {} of {} tensors, {} of the recipe, {}", files.a.string(),
       files.b.string(), difference.tensors.size(), difference.all_tensors,
       counted(difference.recipe.size(), "key"), counted(difference.header.size(), "other field"));
}

}  // namespace

void add_diff_command(CLI::App& app) {
  auto* command = app.add_subcommand(
      "diff", "Compare two checkpoints, or packed models, bit by bit; exit 5 if they differ");
  auto a = std::make_shared<std::string>(), b = std::make_shared<std::string>();
  auto json = std::make_shared<bool>(false);
  command->add_option("A", *a, model_name_help)->required();
  command->add_option("B", *b, "another one, or a later step of the same: RUN@STEP")->required();
  add_json_option(*command, *json);
  command->callback([=] { run({checkpoint_of(*a), checkpoint_of(*b)}, *json); });
}

}  // namespace mxtape
