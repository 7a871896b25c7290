#include "kernels/observers/finite.h"

#include <algorithm>
#include <cstdlib>

#include "core/error.h"
#include "kernels/observers/seen_tensors.h"

namespace mxtape {
namespace {

void check(const Seen& seen, const std::vector<SeenTensor>& tensors) {
  for (const auto& [name, x] : tensors) {
    const std::int64_t at = seen.device.first_nonfinite(x);
    require(at < 0, ExitCode::diverged, "{}: {} {} holds a number that is not finite at element {}",
            seen.call.name(), name, x.shape().text(), at);
  }
}

/// What storing has lost is no number that is not finite: the call tells it, if it is asked. It gives the
/// same bits again, but for sums that are added to.
void check_stored(Backend& device, call::Quantize call) {
  const auto stored = std::ranges::find(call.to, Layout::stored, &Rounded::layout);
  if (stored == call.to.end()) return;
  if (!call.first_uncoded) {
    call.column_sums = {}, call.first_uncoded = device.empty({1}, DType::i32);
    device.dispatch(&call);
  }
  std::int32_t at = -1;
  device.download(&at, call.first_uncoded);
  require(at < 0, ExitCode::diverged, "quantize: element {} is NaN, for which '{}' has no code", at,
          to_text(stored->by.quantizer));
}

}  // namespace

bool Finite::is_asked_for() {
  const char* const check = std::getenv("MXTAPE_CHECK");
  return check && std::string_view(check) == "1";
}

void Finite::before(const Seen& seen) { check(seen, operands_of(seen.call)); }

void Finite::after(const Seen& seen) {
  if (const auto* const quantize = seen.call.as<call::Quantize>()) check_stored(seen.device, *quantize);
  check(seen, results_of(seen.call));
}

}  // namespace mxtape
