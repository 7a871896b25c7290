#include "tests/conformance/gradients.h"

#include <cmath>

#include "interop/hf_names.h"
#include "train/evaluate.h"

namespace mxtape::conformance {

double forward_and_backward(TrainedModel& trained, const std::vector<std::int32_t>& inputs,
                            const std::vector<std::int32_t>& targets, std::int64_t batch, std::int64_t time) {
  Backend& backend = *trained.backend;
  Tape tape(backend, Tape::Mode::training, trained.next_pass());
  const Var logits = trained.model->forward(tape, upload_tokens(backend, inputs, {batch, time}));
  const Var loss = ops::cross_entropy(tape, logits, upload_tokens(backend, targets, {batch * time}));
  tape.backward(loss);
  return double(download_scalar(backend, loss.value));
}

std::vector<double> in_our_layout(const SafetensorsFile& file, const std::string& prefix,
                                  const TensorPlan& plan) {
  std::vector<double> ours;
  for (const TensorPart& part : plan.parts) {
    const TensorInfo* const found = file.find(prefix + part.theirs);
    if (!found) return {};
    require(found->dims == part.their_dims(), ExitCode::data, "{}: '{}' is {}, want {}", file.path().string(),
            found->name, found->text(), shape_text(part.their_dims()));
    const auto theirs = file.read_f64(*found);
    for (std::int64_t i = 0; i < part.rows; ++i)
      for (std::int64_t j = 0; j < part.cols; ++j)
        ours.push_back(theirs[std::size_t(part.transposed ? j * part.rows + i : i * part.cols + j)]);
  }
  return ours;
}

Outcome compare_gradients(const std::filesystem::path& folder, const std::string& device) {
  constexpr double tolerance = 1e-5;  // transformers' own f32 is within 1.9e-6 of f64
  const SafetensorsFile reference(folder / "reference.safetensors");
  const ExpectedLogits expected = expected_logits(reference, "logits_f64");
  TrainedModel trained = imported_model(folder, device);
  std::map<std::string, TensorPlan> plans;
  for (TensorPlan& plan : tensor_plan(open_foreign_model(folder).facts))
    plans.emplace(plan.ours, std::move(plan));
  (void)forward_and_backward(trained, expected.inputs, expected.targets, expected.batch, expected.time);
  std::size_t compared = 0;
  for (Parameter* const parameter : trained.model->parameters()) {
    const auto want = in_our_layout(reference, "grad.", plans.at(parameter->name));
    if (want.empty()) continue;
    std::vector<float> got(std::size_t(parameter->value.count()));
    if (want.size() != got.size())
      return failed(fmt::format("{} has {} numbers, want {}", parameter->name, got.size(), want.size()));
    trained.backend->download(got.data(), parameter->grad);
    double off = 0, norm = 0;
    for (std::size_t i = 0; i < got.size(); ++i) {
      off += (double(got[i]) - want[i]) * (double(got[i]) - want[i]);
      norm += want[i] * want[i];
    }
    if (!(std::sqrt(off) <= tolerance * std::sqrt(norm)))
      return failed(fmt::format("the gradient of {} is off by {:.3g} of its norm, want at most {:g}",
                                parameter->name, std::sqrt(off / norm), tolerance));
    ++compared;
  }
  return compared ? passed() : not_applicable("the set has no gradients of this model");
}

}  // namespace mxtape::conformance
