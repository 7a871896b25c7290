#include "program/replay.h"

#include <algorithm>
#include <cstdio>
#include <string_view>

#include "program/command.h"
#include "program/json/json_output.h"
#include "program/progress.h"

namespace mxtape {
namespace {

struct Arguments {
  std::string run;
  ReplayOptions options;
  bool json = false;
};

using Seen = Watch::Found;

std::string pass_of(const Seen& seen, std::int64_t micro_batches) {
  if (seen.layer == "sum of strands") return "sum";
  return seen.micro >= micro_batches ? "update" : seen.backward ? "backward" : "forward";
}

/// "blocks.0.attn.qkv, backward: gemm: dgrad.dx [64, 96], element 7".
std::string place_of(const Seen& seen, std::int64_t micro_batches) {
  return fmt::format(
      "{}{}{}: {}: {} {}, element {}",
      seen.micro < micro_batches && micro_batches > 1 ? fmt::format("micro-batch {}, ", seen.micro + 1) : "",
      seen.layer.empty() ? "" : seen.layer + ", ", pass_of(seen, micro_batches), seen.kernel, seen.name,
      seen.shape.text(), seen.numbers.first_nonfinite);
}

std::string loss_text(const Replay& r) {
  if (!r.loss) return "not finite: the step diverges";
  const std::string loss = fmt::format("{}", *r.loss);
  if (!r.recorded) return loss + ", not on record";
  if (r.same_bits()) return loss + ", bit for bit as on record";
  return fmt::format(
      "{}; on record {}: not the same bits; another device, oneDNN or instruction set has another "
      "order of additions",
      loss, *r.recorded);
}

void print_table(const Replay& r) {
  const std::int64_t micro_batches = r.recipe.train.passes();
  std::size_t layer = 5, call = 4, shape = 5;
  const auto call_of = [](const Seen& seen) { return seen.kernel + " " + seen.name; };
  for (const Seen& seen : r.tensors) {
    layer = std::max(layer, seen.layer.size());
    call = std::max(call, call_of(seen).size());
    shape = std::max(shape, seen.shape.text().size());
  }
  std::int64_t micro = -1;
  std::string pass;
  for (const Seen& seen : r.tensors) {
    if (const std::string here = pass_of(seen, micro_batches); here != pass || seen.micro != micro) {
      pass = here, micro = seen.micro;
      const bool counted = micro_batches > 1 && micro < micro_batches;
      fmt::print("\n{}{}\n", pass,
                 counted ? fmt::format(", micro-batch {} of {}", micro + 1, micro_batches) : "");
      fmt::print("{:<{}}  {:<{}}  {:<{}}  {:<4}  {:>10}  {:>10}  {:>10}  {:>7}  {:>7}  {:>7}\n", "layer",
                 layer, "call and tensor", std::max<std::size_t>(call, 15), "shape", shape, "type", "min",
                 "max", "rms", "zeros %", "nan", "inf");
    }
    const NumbersSeen& n = seen.numbers;
    const auto number = [&](double x) {
      return n.nans + n.infinities < seen.shape.count() ? fmt::format("{:.4g}", x) : std::string("-");
    };
    fmt::print("{:<{}}  {:<{}}  {:<{}}  {:<4}  {:>10}  {:>10}  {:>10}  {:>7.2f}  {:>7}  {:>7}\n", seen.layer,
               layer, call_of(seen), std::max<std::size_t>(call, 15), seen.shape.text(), shape,
               name_of(seen.dtype), number(n.min), number(n.max), number(n.rms), 100 * n.zeros, n.nans,
               n.infinities);
  }
}

void print(const Arguments& a, const Replay& r) {
  fmt::print("run         {}, step {} of {}\n", a.run, a.options.step, r.recipe.train.steps);
  fmt::print("from        {}; {} steps trained again before it\n",
             r.checkpoint ? r.checkpoint->string() : std::string("the first step"),
             a.options.step - 1 - r.begin);
  fmt::print("loss        {}\n", loss_text(r));
  const Seen* bad = r.first_nonfinite();
  fmt::print("not finite  {}\n", bad ? "first in " + place_of(*bad, r.recipe.train.passes())
                                     : fmt::format("no number in {} tensors", r.tensors.size()));
  if (!r.divergence.empty()) fmt::print("diverged    {}\n", r.divergence);
  print_table(r);
}

Json json_of(const Seen& seen, std::int64_t micro_batches) {
  const NumbersSeen& n = seen.numbers;
  std::vector<std::int64_t> dims(seen.shape.dims.begin(), seen.shape.dims.begin() + seen.shape.rank);
  Json json{{"pass", pass_of(seen, micro_batches)}, {"layer", seen.layer}, {"kernel", seen.kernel}};
  json["micro_batch"] = std::min(seen.micro + 1, micro_batches);
  json["tensor"] = seen.name;
  json["shape"] = dims;
  json["dtype"] = name_of(seen.dtype);
  const bool any = n.nans + n.infinities < seen.shape.count();
  for (const auto& [name, value] : {std::pair{"min", n.min}, {"max", n.max}, {"rms", n.rms}})
    put_number(json, name, any ? std::optional(value) : std::nullopt, "no number is finite");
  json["zeros"] = n.zeros;
  json["nans"] = n.nans;
  json["infinities"] = n.infinities;
  if (n.first_nonfinite >= 0)
    json["first_not_finite"] = n.first_nonfinite;
  else
    put_unknown(json, "first_not_finite", "every number is finite");
  return json;
}

void print_json_of(const Arguments& a, const Replay& r) {
  const std::int64_t micro_batches = r.recipe.train.passes();
  Json json{{"run", a.run}, {"step", a.options.step}};
  put_if_known(json, "checkpoint", r.checkpoint ? r.checkpoint->string() : "",
               "none before the step: from the first");
  json["trained_again"] = a.options.step - 1 - r.begin;
  put_number(json, "loss", r.loss, "the step diverges");
  put_number(json, "recorded_loss", r.recorded, "the step is not on record");
  json["same_bits"] = r.same_bits();
  json["diverged"] = r.divergence;
  if (const Seen* bad = r.first_nonfinite())
    json["first_not_finite"] = json_of(*bad, micro_batches);
  else
    put_unknown(json, "first_not_finite", "every number is finite");
  json["tensors"] = Json::array();
  for (const Seen& seen : r.tensors) json["tensors"].push_back(json_of(seen, micro_batches));
  print_json(json);
}

void run(Arguments a) {
  // On standard error: what is printed on the other one can be read by programs.
  std::optional<Progress> progress;
  a.options.on_start = [&](std::int64_t first, std::int64_t last) {
    fmt::print(stderr, "training steps {} to {} again\n", first, last);
    if (is_screen(stderr)) progress.emplace(stderr, last, first - 1);
  };
  a.options.on_step = [&](const StepRecord& step) {
    if (progress) progress->step(step);
  };
  const Replay result = replay(a.run, a.options);
  if (progress) fmt::print(stderr, "\n");
  a.json ? print_json_of(a, result) : print(a, result);
}

}  // namespace

void add_replay_command(CLI::App& app) {
  auto* command = app.add_subcommand(
      "replay", "Compute a step of a run again, and list every tensor of it; nothing is written");
  auto a = std::make_shared<Arguments>();
  command->add_option("RUN", a->run, "a run's folder")->required();
  command
      ->add_option("--step", a->options.step,
                   "which; the one after the last on record is the one that diverged")
      ->check(whole(1))
      ->required();
  command
      ->add_option("--rollback", a->options.rollback,
                   "the step as it was before the run's n-th rollback, which took it back")
      ->check(whole(1));
  command->add_option("--device", a->options.device, "cpu or cuda; default: the device of the run's recipe");
  command->add_option("--data", a->options.data, "token file; default: the one of the run's recipe");
  add_json_option(*command, a->json);
  command->callback([=] { run(*a); });
}

}  // namespace mxtape
