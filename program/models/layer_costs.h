#pragma once
#include <cstdio>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "program/models/cast.h"
#include "program/models/trained_model.h"
#include "program/show/report.h"
#include "train/evaluate.h"

namespace mxtape {

/// Of a model that is rounded in some layers, on the same windows as the model in f32 [nats per token].
struct RoundedLoss {
  double loss = 0, above_f32 = 0;
  double error = 0;  ///< standard error of above_f32 over the windows; NaN of one window
};

struct LayerLosses {
  std::string precision;
  RoundedLoss all{};
  std::map<std::string, RoundedLoss> alone{};  ///< one layer rounded, all others f32
  double sum() const;                          ///< of what they cost alone
};

struct LayerCosts {
  double f32 = 0;                     ///< loss
  std::vector<std::string> layers{};  ///< that are rounded, as the model has them
  std::vector<LayerLosses> precisions{};
};

/// One pass over the windows in f32, and for each cast one with all layers and one for each layer; the line
/// of progress goes to `out`. A layer is one that the plan names, or `activations`, the type of what passes
/// between them. Throws Error(usage) for a cast that rounds none.
LayerCosts layer_costs(const TrainedModel&, const Split&, EvaluateOptions, std::span<const Cast>,
                       std::FILE* out);

/// The layers that cost most in the first precision first.
std::string layer_table(const LayerCosts&);
/// What `eval --json` says of a precision besides.
Value layers_of(const LayerLosses&);
/// Bars in the order of the model, as a gnuplot script.
std::string layer_script(const LayerCosts&, const std::string& terminal, const std::filesystem::path& output,
                         const std::string& title);

}  // namespace mxtape
