#include "program/header.h"

#include <cmath>

#include "core/memory/resident.h"
#include "program/model_text.h"
#include "program/output.h"
#include "recipes/telemetry/telemetry.h"
#include "recipes/text/precision_table.h"
#include "recipes/text/saved_text.h"
#include "train/memory/memory_plan.h"

namespace mxtape {

void print_header(std::FILE* out, const Recipe& recipe, const TokenFile& data, const Backend& backend,
                  const std::string& memory, const std::filesystem::path& folder) {
  say(out, "mxtape {}   recipe {}   seed {}\n", MXTAPE_VERSION, recipe.name, recipe.seed);
  say(out, "device      {}\n", backend.description());
  say(out, "model       {}\n", model_text(recipe.model));
  say(out, "memory      {}\n", memory);
  say(out, "data        {}: {} + {} tokens, hash {}\n", recipe.data.file, data.train.count(),
      data.validation.count(), data.hash);
  if (data.floor) say(out, "floor       {:.4f} nats per token\n", *data.floor);
  const std::int64_t strands = recipe.train.strands;
  say(out, "step        batch {} x accumulation {} x {}context {} tokens\n", recipe.train.batch_size,
      recipe.train.accumulation, strands > 1 ? fmt::format("strands {} x ", strands) : "",
      recipe.model.context);
  say(out, "validation  {}\n", validation_text(recipe, data));
  if (recipe.telemetry.every > 0) say(out, "telemetry   {}\n", telemetry_text(recipe));
  if (const std::string saved = saved_text(recipe); !saved.empty()) say(out, "saved       {}\n", saved);
  say(out, "{}", precision_table(recipe));
  say(out, "folder      {}\n", folder.string());
}

std::string telemetry_text(const Recipe& recipe) {
  const TelemetryPlan plan = telemetry_plan(recipe);
  return fmt::format(
      "every {} steps, {} of {} slots in {} of {} layers, in {}", recipe.telemetry.every, plan.slots.size(),
      measured_slots.size(), plan.layers.size(), linear_layer_names(recipe.model).size(),
      plan.formats.empty() ? std::string("the formats in use")
                           : fmt::format("the formats in use and {} other{}", plan.formats.size(),
                                         plan.formats.size() == 1 ? "" : "s"));
}

std::string validation_text(const Recipe& recipe, const TokenFile& data) {
  const TrainConfig& train = recipe.train;
  const std::int64_t all = Windows(data.validation, recipe.model.context).count();
  const std::int64_t windows = validation_windows(train, all);
  const bool repeated = train.eval_every > 0 && train.eval_every < train.steps;
  return fmt::format("{} of {} windows, {} tokens, {}, {:.2g}% of the run's work", windows, all,
                     windows * recipe.model.context,
                     repeated ? fmt::format("every {} steps", train.eval_every) : "at the end",
                     100 * validation_share(train, windows));
}

void print_result(std::FILE* out, const Evaluation& validation, std::optional<double> floor,
                  std::int64_t peak_bytes) {
  const bool whole = validation.windows == validation.of_windows;
  say(out, "\nvalidation loss {:.4f} nats per token, perplexity {:.3f}{}\n", validation.loss,
      std::exp(validation.loss),
      whole ? "" : fmt::format(", on the first {} of {} windows", validation.windows, validation.of_windows));
  if (floor)
    say(out, "floor           {:.4f} nats per token, gap {:.4f}\n", *floor, validation.loss - *floor);
  say(out, "memory          tensors {} at their peak, process {}\n", bytes_text(double(peak_bytes)),
      bytes_text(double(most_resident_bytes())));
}

void print_paths(std::FILE* out, const RunFolder& folder, std::int64_t step) {
  say(out, "checkpoint  {}\nmetrics     {}\nTensorBoard {}\n", folder.checkpoint(step).string(),
      folder.metrics().string(), folder.events().string());
  if (std::filesystem::exists(folder.telemetry())) say(out, "telemetry   {}\n", folder.telemetry().string());
}

}  // namespace mxtape
