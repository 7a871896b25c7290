#include <cmath>
#include <set>

#include "core/error.h"
#include "interop/hf_names.h"
#include "optim/adamw.h"
#include "tests/conformance/gradients.h"

namespace mxtape::conformance {
namespace {

namespace fs = std::filesystem;

/// The optimizer's settings in a set's metadata.
AdamWConfig settings_of(const SafetensorsFile& file) {
  const auto number = [&](const char* key, float otherwise) {
    const auto found = file.metadata().find(key);
    return found == file.metadata().end() ? otherwise : std::strtof(found->second.c_str(), nullptr);
  };
  AdamWConfig config;
  config.learning_rate = number("learning_rate", config.learning_rate);
  config.beta1 = number("beta1", config.beta1);
  config.beta2 = number("beta2", config.beta2);
  config.eps = number("eps", config.eps);
  config.weight_decay = number("weight_decay", config.weight_decay);
  config.clip_norm = number("clip_norm", config.clip_norm);
  return config;
}

/// `part` of the way that the set's parameters went from where they began.
struct Way {
  double off = 0, length = 0;
};

/// Every step's loss and gradient norm, and where the parameters end.
///
/// Bounds. Losses and norms follow from gradients that are within 1e-5 of the set's (the bound of the
/// gradients) and from parameters that moved by them: ten times that. AdamW divides each gradient by its own
/// size, so a small one with a large relative error goes far off; counted over a tensor, 1e-2 of the way. A
/// gradient that is 0 but for rounding (of a key's bias, which softmax does not see) may move a number by the
/// learning rate a step in any direction: the set's own then stays within a tenth of one step, and such
/// numbers are held to that many steps alone.
Outcome compare_steps(const fs::path& set, const std::string& name, const std::string& device) {
  constexpr double loss_bound = 1e-4, way_bound = 1e-2;
  const SafetensorsFile file(set / "finetune.safetensors");
  const fs::path folder = set / "models" / name;
  TrainedModel trained = imported_model(folder, device);
  Backend& backend = *trained.backend;
  const TensorInfo& tokens = file.at(name + ".tokens");
  require(tokens.dims.size() == 3 && tokens.dims[2] >= 2, ExitCode::data,
          "{}: '{}' is {}; want [steps, B, T + 1]", file.path().string(), tokens.name, tokens.text());
  const auto all = file.read_i32(tokens);
  const auto steps = std::int64_t(tokens.dims[0]), batch = std::int64_t(tokens.dims[1]),
             row = std::int64_t(tokens.dims[2]), time = row - 1;
  const auto losses = file.read_f64(file.at(name + ".losses")),
             norms = file.read_f64(file.at(name + ".gradient_norms"));
  std::vector<std::vector<float>> before;
  for (const Parameter* parameter : trained.model->parameters())
    backend.download(before.emplace_back(std::size_t(parameter->value.count())).data(), parameter->value);
  const AdamWConfig settings = settings_of(file);
  AdamW optimizer(backend, trained.model->parameters(), settings);
  for (std::int64_t step = 0; step < steps; ++step) {
    std::vector<std::int32_t> inputs, targets;
    for (std::int64_t b = 0; b < batch; ++b) {
      const auto begin = all.begin() + (step * batch + b) * row;
      inputs.insert(inputs.end(), begin, begin + time);
      targets.insert(targets.end(), begin + 1, begin + row);
    }
    const double loss = forward_and_backward(trained, inputs, targets, batch, time);
    const double norm = double(optimizer.step(1));
    const auto near = [&](double got, double want) {
      return std::fabs(got - want) <= loss_bound * std::fabs(want);
    };
    if (!near(loss, losses.at(std::size_t(step))))
      return failed(
          fmt::format("step {}: loss {:.8g}, want {:.8g}", step + 1, loss, losses[std::size_t(step)]));
    if (!near(norm, norms.at(std::size_t(step))))
      return failed(
          fmt::format("step {}: norm {:.8g}, want {:.8g}", step + 1, norm, norms[std::size_t(step)]));
  }
  std::map<std::string, TensorPlan> plans;
  for (TensorPlan& plan : tensor_plan(open_foreign_model(folder).facts))
    plans.emplace(plan.ours, std::move(plan));
  std::size_t index = 0, compared = 0;
  for (const Parameter* parameter : trained.model->parameters()) {
    const std::vector<float>& start = before[index++];
    const auto want = in_our_layout(file, name + ".after.", plans.at(parameter->name));
    if (want.size() != start.size()) continue;
    std::vector<float> got(start.size());
    backend.download(got.data(), parameter->value);
    Way way;
    for (std::size_t i = 0; i < got.size(); ++i) {
      const double rate = double(settings.learning_rate),
                   moved = std::fabs(double(got[i]) - double(start[i]));
      if (std::fabs(want[i] - double(start[i])) < rate / 10) {
        if (moved > 1.01 * rate * double(steps))
          return failed(fmt::format("{} moves by {:.3g} at {}, want 0", parameter->name, moved, i));
        continue;
      }
      way.off += (double(got[i]) - want[i]) * (double(got[i]) - want[i]);
      way.length += (double(start[i]) - want[i]) * (double(start[i]) - want[i]);
    }
    if (!(std::sqrt(way.off) <= way_bound * std::sqrt(way.length)))
      return failed(fmt::format("{} ends {:.3g} of its way off, want at most {:g}", parameter->name,
                                std::sqrt(way.off / way.length), way_bound));
    ++compared;
  }
  return compared ? passed() : failed("the set has no parameters after the steps");
}

}  // namespace

std::vector<InteropCase> finetune_cases(const fs::path& set, const std::string& device) {
  const SafetensorsFile file(set / "finetune.safetensors");
  const std::string ending = ".tokens";
  std::vector<InteropCase> cases;
  for (const TensorInfo& tensor : file.tensors()) {
    if (!tensor.name.ends_with(ending)) continue;
    const std::string name = tensor.name.substr(0, tensor.name.size() - ending.size());
    cases.push_back({"finetune/" + name, [=] { return compare_steps(set, name, device); }});
  }
  return cases;
}

}  // namespace mxtape::conformance
