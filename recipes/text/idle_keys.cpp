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
  const ModelConfig& m = recipe.model;
  add(m.mlp == MlpKind::swiglu, "model.gelu", "model.mlp is swiglu");
  add(m.bias, "model.qkv_bias", "model.bias is true: all linear layers have biases");
  const bool turned = m.positions == Positions::rope;
  for (const char* key : {"model.rope_theta", "model.rope_scaling"})
    add(!turned, key, "model.positions is not rope");
  add(!turned || m.rope.scaling == RopeScaling::none, "model.rope_factor", "nothing is scaled");
  add(turned && m.rope.factor == 1 && m.rope.scaling != RopeScaling::none, "model.rope_scaling",
      "model.rope_factor is 1");
  for (const char* key : {"model.rope_low", "model.rope_high", "model.rope_original"})
    add(!turned || m.rope.scaling != RopeScaling::llama3, key, "the scaling is not llama3");
  const auto kind = recipe.schedule.kind;
  add(kind != ScheduleKind::wsd, "schedule.decay_fraction", "schedule.kind is not wsd");
  add(kind == ScheduleKind::constant, "schedule.final_fraction", "schedule.kind is constant");
  add(recipe.compute.device != "cpu", "compute.gemm", "compute.device is not cpu: its library multiplies");
  add(recipe.compute.device == "cpu", "compute.graph", "compute.device is cpu, which records nothing");
  for (const char* key : {"compute.overlap", "compute.bucket_kib", "train.gather", "train.verify_every"})
    add(recipe.train.strands == 1, key, "train.strands is 1: devices have nothing to share");
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
