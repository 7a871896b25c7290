#include "program/plan/run_plan.h"

#include <algorithm>

#include "train/memory/memory_plan.h"

namespace mxtape {
namespace {

/// "0.87 GB", "3.5 MB".
std::string decimal_text(std::int64_t bytes) {
  const auto count = double(bytes);
  if (count >= 1e9) return fmt::format("{:.2f} GB", count / 1e9);
  if (count >= 1e6) return fmt::format("{:.1f} MB", count / 1e6);
  return fmt::format("{:.1f} kB", count / 1e3);
}

std::string seconds_text(double seconds) {
  if (seconds >= 1) return fmt::format("{:.2f} s", seconds);
  return seconds >= 1e-3 ? fmt::format("{:.3g} ms", seconds * 1e3) : fmt::format("{:.3g} us", seconds * 1e6);
}

double busy_share(std::int64_t strands, std::int64_t devices) {
  const std::int64_t rounds = (strands + devices - 1) / devices;
  return double(strands) / double(rounds * devices);
}

/// "89%"; a share that is not the whole never shows as that.
std::string percent(double share) {
  return share < 1 && share >= 0.995 ? "over 99%" : fmt::format("{:.0f}%", 100 * share);
}

/// Numbers of devices that all have as many strands.
std::vector<std::int64_t> even_counts(std::int64_t strands) {
  std::vector<std::int64_t> all;
  for (std::int64_t count = 1; count <= strands; ++count)
    if (strands % count == 0) all.push_back(count);
  return all;
}

std::string strands_fact(const DevicePlan& plan) {
  std::string text = fmt::format("devices     {} for {}: {}, {}", plan.devices,
                                 counted(plan.strands, "strand"), counted(plan.rounds, "round"),
                                 plan.busy() == 1 ? "all busy" : percent(plan.busy()) + " busy");
  text += "; evenly:";
  for (const std::int64_t count : even_counts(plan.strands)) text += fmt::format(" {}", count);
  constexpr std::int64_t of_a_node = 8;
  std::string uneven;
  for (std::int64_t count = 2; count <= std::min(plan.strands, of_a_node); ++count)
    if (plan.strands % count != 0)
      uneven +=
          fmt::format("{} {} {}", uneven.empty() ? "" : ",", count, percent(busy_share(plan.strands, count)));
  return uneven.empty() ? text : text + "; others:" + uneven;
}

std::string memory_fact(const DevicePlan& plan) {
  const auto text = [](std::int64_t bytes) { return bytes_text(double(bytes)); };
  std::string all = fmt::format(
      "a device    about {}:\n            weights {}, gradients {}, sums of strands {}, moments {}, "
      "quantized weights {},\n            gradients on their way {}, activations or messages {}",
      text(plan.peak), text(plan.weights), text(plan.gradients), text(plan.sums), text(plan.moments),
      text(plan.weight_copies), text(plan.messages), text(plan.rest()));
  if (plan.saving > plan.peak) all += fmt::format("; rank 0 {} while it saves", text(plan.saving));
  return all;
}

double exchange_seconds(const DevicePlan& plan, const Link& link) {
  return double(plan.busiest.all().bytes()) / link.bytes_per_second;
}

Value value_of(const Traffic& t) {
  return object("sent_bytes", t.sent, "received_bytes", t.received, "messages", t.messages,
                "largest_message_bytes", t.largest);
}

}  // namespace

std::string gather_text(const GatherPlan& plan) {
  std::string text = plan.start > 0 ? fmt::format("from step {}: ", plan.start) : "";
  text +=
      fmt::format("new weights once {} instead of {} of f32; {} as packed copies", decimal_text(plan.bytes),
                  decimal_text(plan.f32_bytes), counted(plan.as_copies, "parameter"));
  for (const auto& [why, names] : plan.as_values)
    text += fmt::format("; {} as f32, {}: {}{}", names.size(), why, names.front(),
                        names.size() > 1 ? " ..." : "");
  return text;
}

std::vector<std::string> device_facts(const DevicePlan& plan) {
  std::vector<std::string> facts{strands_fact(plan), memory_fact(plan)};
  if (plan.devices == 1) return facts;
  const Traffic all = plan.busiest.all();
  facts.push_back(fmt::format(
      "exchange    a step, the busiest device: {} sent, {} received;\n            of what it sends, "
      "gradients {}, weights {}; {} messages of up to {}",
      decimal_text(all.sent), decimal_text(all.received), decimal_text(plan.busiest.gradients.sent),
      decimal_text(plan.busiest.values.sent), all.messages, decimal_text(all.largest)));
  for (const GatherPlan& gather : plan.gathers) facts.push_back("gather      " + gather_text(gather));
  std::string times;
  for (const Link& link : assumed_links)
    times += fmt::format("{} {} ({:g} GB/s) {}", times.empty() ? "" : ",", link.name,
                         link.bytes_per_second / 1e9, seconds_text(exchange_seconds(plan, link)));
  facts.push_back("links       that takes, at rates that are assumed:" + times);
  return facts;
}

Value value_of(const DevicePlan& plan) {
  Value json = object(
      "devices", plan.devices, "strands", plan.strands, "rounds", plan.rounds, "busy_share", plan.busy(),
      "even_counts", even_counts(plan.strands), "memory_bytes",
      object("needed", plan.peak, "weights", plan.weights, "gradients", plan.gradients, "sums_of_strands",
             plan.sums, "moments", plan.moments, "quantized_weights", plan.weight_copies,
             "gradients_on_their_way", plan.messages, "activations_or_messages", plan.rest(), "saving",
             plan.saving),
      "step",
      object("busiest_device", value_of(plan.busiest.all()), "gradients", value_of(plan.busiest.gradients),
             "squares", value_of(plan.busiest.squares), "weights", value_of(plan.busiest.values),
             "sent_bytes_of_all", plan.sent_by_all, "messages_of_all", plan.messages_of_all));
  Table gather("from_step; parameters_as_copies; parameters_as_values; bytes; f32_bytes");
  for (const GatherPlan& g : plan.gathers) {
    Value values = object();
    for (const auto& [why, names] : g.as_values) put(values, why, names);
    gather.row(g.start, g.as_copies, values, g.bytes, g.f32_bytes);
  }
  if (!plan.gathers.empty()) put(json, "gather", gather);
  Table links("name; assumed_bytes_per_second; exchange_seconds");
  for (const Link& link : assumed_links)
    links.row(link.name, link.bytes_per_second, exchange_seconds(plan, link));
  put(json, "links", links);
  return json;
}

}  // namespace mxtape
