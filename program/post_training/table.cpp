#include "program/post_training/post_training.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "program/records/paired_gap.h"
#include "train/memory/memory_plan.h"

namespace mxtape {
namespace {

std::string cell(const Measurement* m, double f32) {
  if (!m) return "";
  return m->loss ? fmt::format("{:.4f} {:>+8.4f}", *m->loss, *m->loss - f32) : "diverged";
}

double median_of(const std::vector<LayerDiffusion>& layers, double LayerDiffusion::*error) {
  std::vector<double> all;
  for (const LayerDiffusion& layer : layers) all.push_back(layer.*error);
  return median(all);
}

/// Relative output errors of the layers on the calibration's inputs.
std::string diffusion_text(const PostTraining& p, std::size_t width) {
  Table table(fmt::format(
      "|precision|<{}; |setting|<16; |cast|>9.5f; |diffused|>9.5f; |moved|>9; |worst layer, diffused",
      width));
  for (const Measurement& m : p.measurements) {
    if (m.layers.empty()) continue;
    std::int64_t moved = 0, numbers = 0;
    for (const LayerDiffusion& layer : m.layers) moved += layer.moved, numbers += layer.rows * layer.cols;
    const LayerDiffusion& worst = *std::ranges::max_element(m.layers, {}, &LayerDiffusion::error);
    table.row(m.precision, name_of(m.setting), median_of(m.layers, &LayerDiffusion::direct_error),
              median_of(m.layers, &LayerDiffusion::error),
              moved ? fmt::format("{:.2f}%", 100 * double(moved) / double(numbers)) : "0",
              fmt::format("{} ({:.5f})", worst.layer, worst.error));
  }
  const std::string rows = table.text();
  return rows.empty()
             ? ""
             : "\nerror of the layers' outputs on the calibration windows, relative, medians over layers\n" +
                   rows +
                   "moved: weights that change when the model is read and rounded again, which derives the "
                   "scales anew;\nthe losses above are those after that\n";
}

}  // namespace

std::string subject_text(const PostTraining& p) {
  std::string text = fmt::format("checkpoint   {}, step {}\n", p.checkpoint, p.step);
  text += fmt::format("data         {}, {} of {} validation windows of {} tokens\n", p.data, p.windows,
                      p.all_windows, p.context);
  if (p.diffusion_bytes) {
    text += fmt::format(
        "calibration  {} windows of its training split, seed {}, damping {}; {} on the host for the largest "
        "layer\n",
        p.options.calibration, p.options.seed, p.options.damping, bytes_text(double(p.diffusion_bytes)));
    if (!p.tied.empty())
      text += fmt::format("             {}: tied to the embedding, so cast directly there too\n",
                          fmt::join(p.tied, ", "));
  }
  if (p.finetunes)
    text += fmt::format(
        "finetuning   {} steps of {} sequences of its training split, learning rate {:.3g} falling to 0\n",
        p.options.finetune.steps, p.finetune_batch, p.options.finetune.learning_rate);
  return text + "\n";
}

std::string table_text(const PostTraining& p) {
  std::vector<std::string> precisions;  // in the order of the table
  for (const Measurement& m : p.measurements)
    if (std::ranges::find(precisions, m.precision) == precisions.end()) precisions.push_back(m.precision);
  std::size_t width = std::string_view("precision").size();
  for (const auto& precision : precisions) width = std::max(width, precision.size());
  std::vector<NamedSetting> columns;
  for (const auto& row : settings)
    if (std::ranges::any_of(p.measurements, [&](const Measurement& m) {
          return m.setting == row.setting && (m.precision != "f32" || precisions.size() == 1);
        }))
      columns.push_back(row);
  std::string heads = "|precision; |bits|>6.2f";
  for (const auto& column : columns) heads += fmt::format("; |{}|>17", column.name);  // "0.8247  +0.0000"
  Table table(heads);
  for (const auto& precision : precisions) {
    const bool is_f32 = precision == "f32";
    const auto bits = std::ranges::find(p.measurements, precision, &Measurement::precision)->bits;
    std::vector<Value> cells{precision, bits};
    for (const auto& column : columns) {
      const bool has_none = is_f32 && column.setting != Setting::finetuned;
      cells.emplace_back(has_none ? ""
                                  : cell(find_measurement(p.measurements, precision, column.setting), p.f32));
    }
    table.row(std::move(cells));
  }
  std::string text = table.text();
  text += fmt::format("\nunquantized: {:.4f}{}\n", p.f32,
                      p.floor ? fmt::format(", {:.4f} above the floor", p.f32 - *p.floor) : "");
  text +=
      "loss and gap to the unquantized model: nats per token; bits: per weight of the linear layers, "
      "with the scales of whole blocks, but not of a whole axis\n";
  for (const auto& column : columns) text += fmt::format("{}: {}\n", column.name, column.meaning);
  text += diffusion_text(p, width);
  for (const Measurement& m : p.measurements)
    if (!m.loss) text += fmt::format("\n{} {}: {}\n", m.precision, name_of(m.setting), m.failure);
  std::string kept;
  for (const Measurement& m : p.measurements)
    if (!m.kept.empty()) kept += fmt::format("kept    {}\n", m.kept);
  return text + (kept.empty() ? "" : "\n" + kept);
}

}  // namespace mxtape
