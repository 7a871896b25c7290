#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "interop/hf_names.h"
#include "interop/transposed.h"
#include "program/models/export.h"
#include "program/models/import.h"
#include "tests/conformance/gradients.h"
#include "tests/conformance/imported.h"
#include "tests/conformance/tokenizer_files_cases.h"
#include "train/evaluate.h"
#include "train/sampling/sample.h"

namespace mxtape::conformance {
namespace {

namespace fs = std::filesystem;

Outcome compare_loss(const fs::path& folder, const std::string& device) {
  const SafetensorsFile reference(folder / "reference.safetensors");
  const ExpectedLogits expected = expected_logits(reference, "logits_f64");
  if (!reference.find("nll_f64")) return not_applicable("the set has no losses of this model");
  const auto nll = reference.read_f64(reference.at("nll_f64"));
  double want = 0;
  for (const double one : nll) want += one / double(nll.size());
  TrainedModel trained = imported_model(folder, device);
  Backend& backend = *trained.backend;
  Tape tape(backend, Tape::Mode::evaluation, trained.next_pass());
  const std::int64_t rows = expected.batch * expected.time;
  const Var logits =
      trained.model->forward(tape, upload_tokens(backend, expected.inputs, {expected.batch, expected.time}));
  const Var flat{logits.value.reshaped({rows, trained.model->config().vocabulary})};
  const Tensor targets = upload_tokens(backend, expected.targets, {rows});
  const double got = double(download_scalar(backend, ops::cross_entropy(tape, flat, targets).value));
  // Both terms of -log p, the target's logit and the others', move by at most the logits' tolerance.
  const double tolerance = 2 * logit_tolerance(expected.largest, expected.time);
  return std::fabs(got - want) <= tolerance
             ? passed()
             : failed(fmt::format("loss {:.8g}, want {:.8g} within {:.2g}", got, want, tolerance));
}

Outcome compare_greedy(const fs::path& folder, const std::string& device) {
  TrainedModel trained = imported_model(folder, device);
  for (const auto& run : read_json(folder / "greedy.json")) {
    const auto prompt = run.at("prompt").get<std::vector<std::int32_t>>();
    const auto want = run.at("continuation").get<std::vector<std::int32_t>>();
    const auto got =
        sample(*trained.backend, *trained.model, prompt,
               {.tokens = std::int64_t(want.size()), .temperature = 0, .pass = trained.next_pass()});
    const auto [a, b] = std::mismatch(got.begin(), got.end(), want.begin(), want.end());
    if (a != got.end() || b != want.end())
      return failed(fmt::format("after {} tokens token {} differs", prompt.size(), a - got.begin()));
  }
  return passed();
}

/// Import, export as the folder that it came as, import again: every number has the same bits.
Outcome compare_round_trip(const fs::path& folder) {
  const ScratchFolder scratch;
  const fs::path first = scratch.path() / "first", second = scratch.path() / "second",
                 out = scratch.path() / "out";
  (void)import_model({.source = folder, .out = first});
  export_model({.run = first.string(), .out = out, .form = ExportForm::hf});
  (void)import_model({.source = out, .out = second});
  const CheckpointFile a(first / "checkpoints/step_00000000.h5"), b(second / "checkpoints/step_00000000.h5");
  for (const auto& info : a.file().datasets()) {
    if (!info.name.starts_with("parameters/")) continue;
    if (a.file().read_f32(info.name) != b.file().read_f32(info.name)) return failed(info.name + " changed");
  }
  ModelConfig model = b.header().recipe.model;
  model.context = a.header().recipe.model.context;  // RoPE's is no property of the weights
  return model == a.header().recipe.model ? passed() : failed("the recipe's [model] changed");
}

void add_folder(std::vector<InteropCase>& cases, const std::string& suite, const fs::path& folder,
                const std::string& device) {
  const std::string name = suite + "/" + folder.filename().string() + "/";
  const auto add = [&](const char* what, std::function<Outcome()> compare) {
    cases.push_back({name + what, std::move(compare)});
  };
  add("logits", [=] {
    TrainedModel trained = imported_model(folder, device);
    return compare_logits(trained,
                          expected_logits(SafetensorsFile(folder / "reference.safetensors"), "logits_f64"));
  });
  add("loss", [=] { return compare_loss(folder, device); });
  add("gradients", [=] { return compare_gradients(folder, device); });
  if (fs::exists(folder / "greedy.json")) add("greedy", [=] { return compare_greedy(folder, device); });
  add("round_trip", [=] { return compare_round_trip(folder); });
}

std::vector<InteropCase> cases_below(const fs::path& set, const std::string& device, bool variants) {
  std::vector<fs::path> folders;
  for (const auto& entry : fs::directory_iterator(set / "models"))
    if (entry.is_directory() && entry.path().filename().string().starts_with("variant-") == variants)
      folders.push_back(entry.path());
  std::sort(folders.begin(), folders.end());
  std::vector<InteropCase> cases;
  for (const fs::path& folder : folders) add_folder(cases, variants ? "variants" : "models", folder, device);
  return cases;
}

}  // namespace

std::vector<InteropCase> model_cases(const fs::path& set, const std::string& device) {
  return cases_below(set, device, false);
}
std::vector<InteropCase> variant_cases(const fs::path& set, const std::string& device) {
  return cases_below(set, device, true);
}

}  // namespace mxtape::conformance
