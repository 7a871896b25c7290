#include "train/forensics.h"

namespace mxtape {

std::string first_nonfinite_tensor(Backend& backend, std::span<Parameter* const> parameters) {
  const auto search = [&](const char* kind, const Parameter& parameter, const Tensor& tensor) -> std::string {
    const std::int64_t at = tensor ? backend.first_nonfinite(tensor) : -1;
    if (at < 0) return "";
    return fmt::format("the first tensor that is not finite: {} '{}' {}, element {}", kind, parameter.name,
                       tensor.shape().text(), at);
  };
  for (const auto* p : parameters)
    if (auto found = search("parameter", *p, p->value); !found.empty()) return found;
  for (auto p = parameters.rbegin(); p != parameters.rend(); ++p)
    if (auto found = search("gradient of", **p, (*p)->grad); !found.empty()) return found;
  return "every parameter, and every gradient made so far, is finite";
}

}  // namespace mxtape
