#include "recipes/text/auto_gemm.h"

#include <algorithm>

#include "recipes/rollbacks.h"

namespace mxtape {

void settle_auto_gemm(Recipe& r) {
  if (r.compute.gemm != GemmChoice::automatic) return;
  const auto shares = [](const PrecisionPlan& plan) {
    return std::any_of(plan.linear.begin(), plan.linear.end(), [](const auto& layer) {
      const LinearQuant& quant = layer.second;
      return quant.dgrad_source == OperandSource::shared || quant.wgrad_source == OperandSource::shared;
    });
  };
  bool any = false;
  for (const std::int64_t step : plan_changes(r)) any = any || shares(precision_plan(r, step));
  for (const std::int64_t n : coming_rollbacks(r))
    any = any || shares(precision_plan(as_rolled_back(r, n), 0));
  if (!any) return;
  r.compute.gemm = GemmChoice::library;
  r.origins["compute.gemm"] = "auto, with source=shared";
}

}  // namespace mxtape
