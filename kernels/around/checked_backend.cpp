#include "kernels/around/checked_backend.h"

#include <algorithm>

#include "core/error.h"
#include "kernels/around/seen_tensors.h"
#include "kernels/calls_rows.h"

namespace mxtape {
namespace {

void check(Backend& backend, std::string_view kernel, const std::vector<SeenTensor>& tensors) {
  for (const auto& [name, x] : tensors) {
    const std::int64_t at = backend.first_nonfinite(x);
    require(at < 0, ExitCode::diverged, "{}: {} {} holds a number that is not finite at element {}", kernel,
            name, x.shape(), at);
  }
}

/// What storing has lost is no number that is not finite: the call tells it, if it is asked.
void dispatch_stored(Backend& backend, call::Quantize call, const Rounded& stored) {
  if (!call.first_uncoded) call.first_uncoded = backend.empty({1}, DType::i32);
  backend.dispatch(&call);
  std::int32_t at = -1;
  backend.download(&at, call.first_uncoded);
  require(at < 0, ExitCode::diverged, "quantize: element {} is NaN, for which '{}' has no code", at,
          to_text(stored.by.quantizer));
}

}  // namespace

void CheckedBackend::dispatch(AnyCall any) {
  const std::string_view kernel = std::visit([](const auto* call) { return call->name; }, any);
  check(inner_, kernel, operands_of(any));
  const auto* const quantize = std::get_if<const call::Quantize*>(&any);
  const auto is_stored = [](const Rounded& r) { return r.layout == Layout::stored; };
  if (quantize && std::any_of((*quantize)->to.begin(), (*quantize)->to.end(), is_stored))
    dispatch_stored(inner_, **quantize, (*quantize)->to.front());
  else
    inner_.dispatch(any);
  check(inner_, kernel, results_of(any));
}

}  // namespace mxtape
