#include "kernels/around/checked_backend.h"

#include "core/error.h"
#include "kernels/around/seen_tensors.h"

namespace mxtape {
namespace {

/// What packing has lost is no number that is not finite: PackedTensor::first_uncoded tells it.
void check_codes(Backend& backend, const call::Pack& call) {
  std::int32_t at = -1;
  backend.download(&at, call.y.first_uncoded);
  require(at < 0, ExitCode::diverged, "pack: element {} is NaN, for which '{}' has no code", at,
          to_text(call.y.quantizer));
}
void check_codes(Backend&, const auto&) {}

void check(Backend& backend, std::string_view kernel, const std::vector<SeenTensor>& tensors) {
  for (const auto& [name, x] : tensors) {
    const std::int64_t at = backend.first_nonfinite(x);
    require(at < 0, ExitCode::diverged, "{}: {} {} holds a number that is not finite at element {}", kernel,
            name, x.shape().text(), at);
  }
}

}  // namespace

void CheckedBackend::dispatch(AnyCall any) {
  const std::string_view kernel = std::visit([](const auto* call) { return call->name; }, any);
  check(inner_, kernel, operands_of(any));
  inner_.dispatch(any);
  check(inner_, kernel, results_of(any));
  std::visit([&](const auto* call) { check_codes(inner_, *call); }, any);
}

}  // namespace mxtape
