#pragma once
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "program/models/trained_model.h"
#include "program/show/report.h"

namespace mxtape {

/// What `mxtape eval` measures a model on.
struct Measured {
  using Progress = std::function<void(std::int64_t done, std::int64_t total)>;
  std::function<double(const Progress&)> nats;  ///< of `tokens`, in the precision that the model has now
  double tokens = 1;
  std::optional<double> floor{};        ///< of the data, where it is known
  std::optional<std::int64_t> bytes{};  ///< of a text, unless it is ids
};

/// A text in windows of the context, one every `stride` tokens (0: the context), with `bos_each` the
/// tokenizer's BOS in front of each; what that is goes to the report. Throws Error(usage) for a stride beyond
/// the context or a BOS that the tokenizer has not; Error(data) for a text that the tokenizer cannot encode,
/// or is shorter than two tokens.
Measured text_to_measure(const TrainedModel&, const std::string& source, std::int64_t stride, bool bos_each,
                         Report&);

}  // namespace mxtape
