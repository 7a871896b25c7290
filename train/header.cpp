#include "train/header.h"

#include <sys/resource.h>

#include <cmath>

#include "autograd/slots.h"

namespace mxtape {
namespace {

std::string mib(double bytes) { return fmt::format("{:.1f} MiB", bytes / (1 << 20)); }

/// Layers with the same plan share a line: "16 linear layers" or the layer's name.
std::string precision_lines(const PrecisionPlan& plan) {
  std::vector<std::pair<LinearQuant, std::vector<std::string>>> groups;
  for (const auto& [name, quant] : plan.linear) {
    auto group = groups.begin();
    while (group != groups.end() && !(group->first == quant)) ++group;
    if (group == groups.end()) group = groups.insert(groups.end(), {quant, {}});
    group->second.push_back(name);
  }
  std::string text;
  for (const auto& [quant, names] : groups) {
    text += fmt::format("precision   {}\n",
                        names.size() == 1 ? names[0] : fmt::format("{} linear layers", names.size()));
    for (const auto& slot : linear_slots)
      text += fmt::format("              {:<9} {}\n", slot.name, to_text(quant.*slot.field));
  }
  return text;
}

}  // namespace

void print_header(std::FILE* out, const Recipe& recipe, const TokenFile& data, const Backend& backend,
                  const std::filesystem::path& folder) {
  const GptConfig& m = recipe.model;
  const std::int64_t parameters = parameter_count(m);
  // Value, gradient and two moments, f32 each.
  const double state_bytes = 16.0 * double(parameters);
  fmt::print(out, "mxtape {}   recipe {}   seed {}\n", MXTAPE_VERSION, recipe.name, recipe.seed);
  fmt::print(out, "device      {}\n", backend.description());
  fmt::print(out, "model       {} layers, {} heads, {} wide, context {}, vocabulary {}: {} parameters\n",
             m.layers, m.heads, m.width, m.context, m.vocabulary, parameters);
  fmt::print(out, "memory      {} for weights, gradients and moments\n", mib(state_bytes));
  fmt::print(out, "data        {}: {} + {} tokens, hash {}\n", recipe.data.file, data.train.count(),
             data.validation.count(), data.hash);
  if (data.floor) fmt::print(out, "floor       {:.4f} nats per token\n", *data.floor);
  fmt::print(out, "step        {} sequences x {} micro-batches x {} tokens\n", recipe.train.batch_size,
             recipe.train.accumulation, m.context);
  fmt::print(out, "{}", precision_lines(precision_plan(recipe, 0)));
  fmt::print(out, "folder      {}\n", folder.string());
}

void print_result(std::FILE* out, double validation_loss, std::optional<double> floor,
                  std::int64_t peak_bytes) {
  struct rusage usage {};
  getrusage(RUSAGE_SELF, &usage);
  fmt::print(out, "\nvalidation loss {:.4f} nats per token, perplexity {:.3f}\n", validation_loss,
             std::exp(validation_loss));
  if (floor)
    fmt::print(out, "floor           {:.4f} nats per token, gap {:.4f}\n", *floor, validation_loss - *floor);
  fmt::print(out, "memory          tensors {} at their peak, process {}\n", mib(double(peak_bytes)),
             mib(1024.0 * double(usage.ru_maxrss)));
}

void print_paths(std::FILE* out, const RunFolder& folder, std::int64_t step) {
  fmt::print(out, "checkpoint  {}\nmetrics     {}\nTensorBoard {}\n", folder.checkpoint(step).string(),
             folder.metrics().string(), folder.events().string());
}

}  // namespace mxtape
