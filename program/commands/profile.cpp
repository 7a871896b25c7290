#include <cstdio>

#include "core/error.h"
#include "core/files/atomic_file.h"
#include "program/command.h"
#include "program/init/init_recipe.h"
#include "program/json/json_output.h"
#include "program/profile.h"

namespace mxtape {
namespace {

struct Arguments {
  std::string recipe, by = "kernel", flame;
  std::int64_t steps = 10;
  bool json = false;
};

ProfileBy by_of(const std::string& word) {
  return word == "layer" ? ProfileBy::layer : word == "call" ? ProfileBy::call : ProfileBy::kernel;
}

Json json_of(const Profile& p, ProfileBy by) {
  const double steps = double(p.steps);
  Json json{{"recipe", p.recipe.name},
            {"device", p.device},
            {"data", p.data},
            {"steps", p.steps},
            {"step_ms", 1e3 * p.step_seconds},
            {"watched_step_ms", 1e3 * p.watched_seconds}};
  json["peaks"] = {{"bf16_flops", p.peaks.bf16_flops},
                   {"f32_flops", p.peaks.f32_flops},
                   {"integer_ops", p.peaks.integer_ops},
                   {"bytes", p.peaks.bytes}};
  json["rows"] = Json::array();
  for (const auto& [name, work] : p.rows(by))
    json["rows"].push_back({{"name", name},
                            {"calls", double(work.calls) / steps},
                            {"ms", 1e3 * work.seconds / steps},
                            {"bytes", work.bytes / steps},
                            {"bf16_flops", work.bf16_flops / steps},
                            {"f32_flops", work.f32_flops / steps},
                            {"integer_ops", work.integer_ops / steps},
                            {"limit_share", p.limit_share(work)}});
  return json;
}

void run(const Arguments& arguments, const std::vector<std::string>& overrides) {
  const Recipe recipe = read_recipe_of_run(arguments.recipe, overrides);
  if (!arguments.flame.empty()) require_output(arguments.flame, {recipe.data.file});
  const Profile p = profile_recipe(recipe, arguments.steps);
  const ProfileBy by = by_of(arguments.by);
  if (!arguments.flame.empty()) write_atomically(arguments.flame, folded_stacks(p));
  if (arguments.json) return print_json(json_of(p, by));
  fmt::print("recipe    {}, batch {} x accumulation {} x context {}\ndevice    {}\ndata      {}\n",
             p.recipe.name, p.recipe.train.batch_size, p.recipe.train.accumulation, p.recipe.model.context,
             p.device, p.data);
  const std::string integers =
      p.peaks.integer_ops > 0 ? fmt::format("integer {:.0f} GOP/s, ", 1e-9 * p.peaks.integer_ops) : "";
  fmt::print("peaks     {}bf16 {:.0f} GFLOP/s, f32 {:.0f} GFLOP/s, {:.1f} GB/s, as measured now\n", integers,
             1e-9 * p.peaks.bf16_flops, 1e-9 * p.peaks.f32_flops, 1e-9 * p.peaks.bytes);
  fmt::print("step      {:.2f} ms, median of {}; {:.2f} ms with every call timed, of which the table is\n\n",
             1e3 * p.step_seconds, p.steps, 1e3 * p.watched_seconds);
  fmt::print("{}\n% limit: the part of its time that a row would take at these peaks\n",
             profile_table(p, by));
  if (!arguments.flame.empty()) fmt::print("wrote {}\n", arguments.flame);
}

}  // namespace

void add_profile_command(CLI::App& app) {
  auto* command =
      app.add_subcommand("profile", "Time the calls of a recipe's step, by kernel, slot and layer");
  auto a = std::make_shared<Arguments>();
  command->add_option("recipe", a->recipe, "a .toml file, or the name of a shipped recipe (mxtape recipes)")
      ->required();
  command->add_option("--steps", a->steps, "steps that are measured")->check(whole(1))->capture_default_str();
  command->add_option("--by", a->by, "rows: kernel (and slot), layer, or call (both)")
      ->check(CLI::IsMember({"kernel", "layer", "call"}))
      ->capture_default_str();
  command->add_option("--flame", a->flame, "file for a flame graph: folded stacks, microseconds a step");
  add_device_option(*command);
  add_json_option(*command, a->json);
  command->allow_extras();
  command->footer(
      "Every key of a recipe is an option too: --section.key=value (mxtape recipes --reference).");
  command->callback([=] { run(*a, overrides_of(*command)); });
}

}  // namespace mxtape
