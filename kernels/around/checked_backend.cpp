#include "kernels/around/checked_backend.h"

#include "core/error.h"

namespace mxtape {
namespace {

constexpr bool is_computed(Role role) {
  return role == Role::result || role == Role::output || role == Role::sum || role == Role::state ||
         role == Role::rounded;
}

/// What packing has lost is no number that is not finite: PackedTensor::first_uncoded tells it.
void check_codes(Backend& backend, const call::Pack& call) {
  std::int32_t at = -1;
  backend.download(&at, call.y.first_uncoded);
  require(at < 0, ExitCode::diverged, "pack: element {} is NaN, for which '{}' has no code", at,
          to_text(call.y.quantizer));
}
void check_codes(Backend&, const auto&) {}

}  // namespace

void CheckedBackend::dispatch(AnyCall any) {
  inner_.dispatch(any);
  const auto check = [&](const auto* call) {
    call->each(*call, [&](Role role, std::string_view field, const Tensor& x) {
      if (!x || !is_computed(role)) return;  // or an output that was not wanted
      const std::int64_t at = inner_.first_nonfinite(x);
      require(at < 0, ExitCode::diverged, "{}: {} {} holds a number that is not finite at element {}",
              call->name, field, x.shape().text(), at);
    });
    check_codes(inner_, *call);
  };
  std::visit(check, any);
}

}  // namespace mxtape
