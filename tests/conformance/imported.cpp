#include "tests/conformance/imported.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>

#include "core/error.h"
#include "program/models/import.h"
#include "train/evaluate.h"

namespace mxtape::conformance {

namespace fs = std::filesystem;

ScratchFolder::ScratchFolder() {
  std::string name = (fs::temp_directory_path() / "mxtape-conformance-XXXXXX").string();
  const bool made = ::mkdtemp(name.data()) != nullptr;
  require(made, ExitCode::resource, "{}: cannot be made: {}", name, std::strerror(errno));
  path_ = name;
}
ScratchFolder::~ScratchFolder() {
  std::error_code stays;
  fs::remove_all(path_, stays);
}

TrainedModel imported_model(const fs::path& source, const std::string& device) {
  const ScratchFolder scratch;
  (void)import_model({.source = source, .out = scratch.path() / "model"});
  return load_trained_model((scratch.path() / "model").string(), device);
}

ExpectedLogits expected_logits(const SafetensorsFile& file, const std::string& key) {
  const TensorInfo &tokens = file.at("tokens"), &logits = file.at(key);
  const auto bad = [&](const TensorInfo& tensor, const char* wanted) {
    fail(ExitCode::data, "{}: '{}' is {}; want {}", file.path().string(), tensor.name, tensor.text(), wanted);
  };
  if (logits.dims.size() != 3) bad(logits, "[B, T, V]");
  ExpectedLogits expected{.batch = std::int64_t(logits.dims[0]), .time = std::int64_t(logits.dims[1])};
  const auto row = tokens.dims.size() == 2 ? std::int64_t(tokens.dims[1]) : 0;
  if (tokens.dims.size() != 2 || tokens.dims[0] != logits.dims[0] || row < expected.time ||
      row > expected.time + 1)
    bad(tokens, "[B, T] or [B, T + 1]");
  const auto all = file.read_i32(tokens);
  for (std::int64_t b = 0; b < expected.batch; ++b) {
    const auto begin = all.begin() + b * row;
    expected.inputs.insert(expected.inputs.end(), begin, begin + expected.time);
    if (row > expected.time)
      expected.targets.insert(expected.targets.end(), begin + 1, begin + 1 + expected.time);
  }
  expected.logits = file.read_f64(logits);
  for (const double x : expected.logits) expected.largest = std::max(expected.largest, std::fabs(x));
  return expected;
}

double logit_tolerance(double largest, std::int64_t time) {
  constexpr double share = 1e-5, u = 0x1p-24;
  constexpr std::int64_t short_texts = 256;
  return (share + (time > short_texts ? 2 * u * double(time) : 0)) * largest;
}

std::vector<float> logits_of(TrainedModel& trained, const ExpectedLogits& expected) {
  Backend& backend = *trained.backend;
  Tape tape(backend, Tape::Mode::evaluation, trained.next_pass());
  const Tensor inputs = upload_tokens(backend, expected.inputs, {expected.batch, expected.time});
  const Var result = trained.model->forward(tape, inputs);
  const Tensor wide = backend.empty(result.value.shape());
  backend.copy(wide, result.value);  // from bf16, if activations are
  std::vector<float> logits(std::size_t(wide.count()));
  backend.download(logits.data(), wide);
  return logits;
}

Outcome compare_logits(TrainedModel& trained, const ExpectedLogits& expected) {
  const auto logits = logits_of(trained, expected);
  if (logits.size() != expected.logits.size())
    return failed(fmt::format("{} logits, want {}", logits.size(), expected.logits.size()));
  std::size_t worst = 0;
  const auto difference = [&](std::size_t i) { return std::fabs(double(logits[i]) - expected.logits[i]); };
  for (std::size_t i = 0; i < logits.size(); ++i)
    if (!(difference(i) <= difference(worst))) worst = i;  // a NaN is the worst
  const double tolerance = logit_tolerance(expected.largest, expected.time);
  if (difference(worst) <= tolerance) return passed();
  return failed(fmt::format("logit {} is {:.7g}, want {:.7g}: {:.2g} of the largest, want at most {:.2g}",
                            worst, logits[worst], expected.logits[worst],
                            difference(worst) / expected.largest, tolerance / expected.largest));
}

}  // namespace mxtape::conformance
