#include "program/post_training/post_training.h"

namespace mxtape {

Json json_of(const PostTraining& p) {
  Json json{{"checkpoint", p.checkpoint},
            {"checkpoint_hash", p.checkpoint_hash},
            {"step", p.step},
            {"data", p.data},
            {"data_hash", p.data_hash},
            {"arithmetic", p.arithmetic},
            {"windows", p.windows},
            {"all_windows", p.all_windows},
            {"context", p.context},
            {"calibration", {{"split", "train"}, {"windows", p.calibration}, {"seed", p.seed}}},
            {"damping", p.damping},
            {"diffusion_bytes", p.diffusion_bytes},
            {"cast_directly", p.tied},
            {"finetune",
             {{"steps", p.finetune.steps},
              {"sequences_per_step", p.finetune_batch},
              {"learning_rate", p.finetune.learning_rate}}},
            {"attention", p.attention}};
  put_number(json, "floor", p.floor, "the data does not carry its entropy");
  json["f32"] = p.f32;
  json["results"] = Json::array();
  for (const Measurement& m : p.measurements) json["results"].push_back(json_of(m, p.f32));
  return json;
}

}  // namespace mxtape
