#include <map>

#include "program/models/tensor_numbers.h"
#include "program/models/trained_model.h"
#include "program/records/run_name.h"
#include "program/show/command.h"

namespace mxtape {
namespace {

using Info = Hdf5Reader::Info;

struct Arguments {
  std::string a, b;
};

std::string text_of(const Info& info) { return info.type + " " + indices_text(info.dims); }

std::string misfit_of(const std::optional<Info>& a, const std::optional<Info>& b) {
  if (!b) return "only in A, " + text_of(*a);
  if (!a) return "only in B, " + text_of(*b);
  return text_of(*a) == text_of(*b) ? "" : text_of(*a) + " -> " + text_of(*b);
}

constexpr std::string_view tensor_columns =
    "name|tensor; misfit; differ|differ|>10; first|first at|>14; a|A|>15; b|B|>15; largest|largest|>10";

/// A row for each tensor that differs, by name, parameters first. Returns the number of all, in either.
std::size_t fill(Table& table, const Hdf5Reader& a, const Hdf5Reader& b) {
  std::map<std::string, std::pair<std::optional<Info>, std::optional<Info>>> tensors;
  for (const Info& info : a.datasets()) tensors[info.name].first = info;
  for (const Info& info : b.datasets()) tensors[info.name].second = info;
  for (const bool parameters : {true, false})
    for (const auto& [name, both] : tensors) {
      if (name.starts_with("parameters/") != parameters) continue;
      const std::string misfit = misfit_of(both.first, both.second);
      const bool compared = misfit.empty();
      const auto d = compared ? difference_of(a.read_f32(name), b.read_f32(name)) : TensorDifference();
      if (compared && d.count == 0) continue;
      const auto value = [&](auto x, const char* form = "{}") {
        return compared ? Value(double(x), fmt::format("{}", double(x)), fmt::format(fmt::runtime(form), x))
                        : Value(nullptr, "nothing was compared");
      };
      const auto first = d.count ? indices_of(d.first, both.first->dims) : std::vector<std::int64_t>();
      table
          .row(name, misfit, d.count, Value(first, "", indices_text(first)), value(d.a), value(d.b),
               value(d.largest, "{:.4g}"))
          .rest = misfit;
    }
  return tensors.size();
}

Report run(const Arguments& names) {
  const std::string path_a = checkpoint_of(names.a).string(), path_b = checkpoint_of(names.b).string();
  const SavedModel a = open_saved_model(path_a), b = open_saved_model(path_b);
  const auto kind = [](const SavedModel& m) { return m.packed_as.empty() ? "checkpoint" : "packed model"; };
  require(a.packed_as.empty() == b.packed_as.empty(), ExitCode::usage,
          "{} is a {}, {} a {}; want two of a kind", path_a, kind(a), path_b, kind(b));
  Report out;
  Table header("field; a; b"), recipe("key; change"), tensors(tensor_columns);
  out.line("A           {}\nB           {}", path_a, path_b);
  const auto compare = [&](const char* name, const std::string& in_a, const std::string& in_b,
                           const std::string& shown = {}) {
    if (in_a == in_b) return;
    header.row(name, in_a, in_b);
    out.line("{:<11} {}", name, shown.empty() ? in_a + " -> " + in_b : shown);
  };
  compare("step", std::to_string(a.header.step), std::to_string(b.header.step));
  // Named, not listed: their JSON may have a megabyte.
  const Tokenizer &of_a = a.header.tokenizer, &of_b = b.header.tokenizer;
  const std::string first = of_b.first_difference(of_a);
  compare("tokenizer", of_a.to_json(), of_b.to_json(),
          fmt::format("{} -> {}{}", of_a.text(), of_b.text(), first.empty() ? "" : ": " + first));
  compare("data_hash", a.header.data_hash, b.header.data_hash);
  compare("written_by", a.header.written_by, b.header.written_by);
  compare("precision", a.packed_as, b.packed_as);
  // How a format is written does not count, nor what the run is called, or where.
  Recipe renamed = a.header.recipe;
  renamed.name = b.header.recipe.name;
  for (const auto& change : differences(without_whereabouts(renamed), without_whereabouts(b.header.recipe))) {
    const auto colon = change.find(": ");  // no key holds one
    recipe.row(change.substr(0, colon), change.substr(colon + 2));
    out.line("recipe      {}", change);
  }
  const std::size_t all = fill(tensors, *a.file, *b.file);
  const bool same = header.rows() + recipe.rows() + tensors.rows() == 0;
  out.put("a", path_a, "b", path_b, "same", same, "header", header, "recipe", recipe, "all_tensors", all);
  out.table("tensors", tensor_columns) = tensors;
  if (same) {
    out.line("the same: step {}, {} tensors", a.header.step, all);
    return out;
  }
  out.line("{} of {} tensors differ", tensors.rows(), all);
  out.problems.emplace_back(
      ExitCode::differs,
      fmt::format("{} and {} differ: {} of {} tensors, {} of the recipe, {}", path_a, path_b, tensors.rows(),
                  all, counted(recipe.rows(), "key"), counted(header.rows(), "other field")));
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
