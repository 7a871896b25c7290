#include "recipes/text/idle_keys.h"

namespace mxtape {

bool saves_meanwhile(const TrainConfig& t) {
  return t.save_every > 0 || t.save_minutes > 0 || t.keep_every > 0 || t.keep_best ||
         t.on_divergence == OnDivergence::rollback;
}

std::vector<IdleKey> idle_keys(const Recipe& recipe) {
  std::vector<IdleKey> idle;
  const auto add = [&](bool unused, std::string_view key, std::string_view reason) {
    if (unused) idle.push_back({key, reason});
  };
  const auto kind = recipe.schedule.kind;
  add(kind != ScheduleKind::wsd, "schedule.decay_fraction", "schedule.kind is not wsd");
  add(kind == ScheduleKind::constant, "schedule.final_fraction", "schedule.kind is constant");
  add(recipe.compute.device != "cpu", "compute.gemm", "compute.device is not cpu: its library multiplies");
  add(recipe.compute.device == "cpu", "compute.graph", "compute.device is cpu, which records nothing");
  add(recipe.train.on_divergence != OnDivergence::skip, "train.skip_most", "train.on_divergence is not skip");
  for (const char* key : {"train.rollback_most", "train.rollback_skip"})
    add(recipe.train.on_divergence != OnDivergence::rollback, key, "train.on_divergence is not rollback");
  add(!saves_meanwhile(recipe.train), "train.keep", "one checkpoint is written, at the end");
  for (const char* key :
       {"telemetry.formats", "telemetry.layers", "telemetry.slots", "telemetry.sample", "telemetry.window"})
    add(recipe.telemetry.every == 0, key, "telemetry.every is 0");
  return idle;
}

}  // namespace mxtape
