#include "train/memory/device_plan.h"

#include <memory>
#include <utility>

#include "dist/devices.h"
#include "kernels/observers/dry_backend.h"
#include "nn/model.h"
#include "train/devices/packed_gradients.h"
#include "train/devices/passes.h"
#include "train/devices/strand_sum.h"
#include "train/memory/memory_plan.h"

namespace mxtape {
namespace {

/// One of several devices of a dry run (kernels/observers/dry_backend.h): the others are not there, and say
/// what this one does. Takes a strand's tensors without memory and moves nothing.
class DryDevice final : public Group, public Communicator {
 public:
  explicit DryDevice(int size) {
    place_.size = size;
    place_.host = place_.launcher = "dry run";
  }
  const Place& place() const override { return place_; }
  std::string description() const override { return "dry run"; }
  std::vector<std::string> all_gather(std::string_view mine, Patience = Patience::step) override {
    return std::vector<std::string>(std::size_t(place_.size), std::string(mine));
  }
  [[noreturn]] void abandon(ExitCode code, std::string_view why) noexcept override {
    fail(code, "{}", why);  // ends the program: nothing here can fail half way
  }
  void start(int, std::span<const Part>, std::span<const Part>) override {}
  void finish(int) override {}

 private:
  Place place_;
};

constexpr std::int64_t f32_bytes = 4;

struct Cut {
  std::vector<std::vector<Shard>> shards;  // by bucket, by rank
  Messages gradients, weights;
  std::int64_t packed = 0;  // bytes of a strand's gradients that are rounded
};

/// A model with its weights' copies, on a device without memory.
struct DryModel {
  DryBackend device;
  std::unique_ptr<Model> model;
  std::vector<Parameter*> parameters;
  CopiesThatTravel copies;

  DryModel(const Recipe& recipe, const PrecisionPlan& precision)
      : device(DryBackend::Memory::pool, {}, recipe.compute.gemm_kernels()),
        model(make_model(device, recipe.model, precision, recipe.seed)),
        parameters(model->parameters()) {
    model->make_weight_copies(device, pass_key(recipe, 0));
    const bool some = recipe.train.gather == Gather::copies;
    copies = CopiesThatTravel(parameters, some ? model->linear_weights() : std::vector<LinearWeight>());
  }
};

/// What a device keeps of what is shared out.
struct Share {
  std::int64_t sums, moments, messages;
  std::int64_t all() const { return sums + moments + messages; }
};

Share share_of(const Recipe& recipe, const Cut& made, int devices, int rank) {
  const std::int64_t sums = recipe.train.strands > strands_of_a_group ? 2 : 1;
  Share share{f32_bytes * sums * elements_of_shards(made.shards, rank),
              f32_bytes * 2 * own_elements(made.shards, rank), 0};
  if (!recipe.compute.overlap || devices == 1) return share;
  share.messages = made.packed;
  for (const auto& of_bucket : made.gradients)
    for (const std::int64_t bytes : of_bucket[std::size_t(rank)]) share.messages += (devices - 1) * bytes;
  return share;
}

Cut cut_for(const Recipe& recipe, int devices) {
  const PrecisionPlan precision = precision_plan(recipe, 0);
  const DryModel of(recipe, precision);
  std::vector<Shape> shapes;
  for (const Parameter* p : of.parameters) shapes.push_back(p->value.shape());
  const std::vector<Bucket> buckets = make_buckets(shapes, recipe.compute.bucket_elements());
  Cut made;
  for (const Bucket& bucket : buckets) made.shards.push_back(cut(bucket, devices));
  const std::vector<Quantizer> formats = sum_formats(of.parameters, precision);
  made.gradients = gradient_messages(buckets, made.shards, shapes, formats);
  made.weights = weight_messages(buckets, made.shards, of.copies);
  for (std::size_t i = 0; i < shapes.size(); ++i)
    if (!formats[i].is_identity()) made.packed += bytes_of_gradient(shapes[i], formats[i]);
  return made;
}

}  // namespace

std::vector<GatherPlan> gather_plans(const Recipe& recipe) {
  std::vector<GatherPlan> plans;
  if (recipe.train.gather == Gather::values) return plans;
  for (const std::int64_t start : plan_changes(recipe)) {
    const DryModel of(recipe, precision_plan(recipe, start));
    GatherPlan plan{.start = start};
    for (std::size_t i = 0; i < of.parameters.size(); ++i) {
      const std::string why = of.copies.reason_for_values(i);
      const std::int64_t plain = f32_bytes * of.parameters[i]->value.count();
      plan.f32_bytes += plain;
      if (why.empty())
        ++plan.as_copies, plan.bytes += of.copies.bytes_on_the_way(i);
      else
        plan.as_values[why].push_back(of.parameters[i]->name), plan.bytes += plain;
    }
    plans.push_back(std::move(plan));
  }
  return plans;
}

DevicePlan device_plan(const Recipe& recipe, int devices) {
  DevicePlan plan;
  plan.devices = devices;
  plan.strands = recipe.train.strands;
  plan.rounds = (plan.strands + devices - 1) / devices;
  DryDevice first(devices);
  Devices all(first, first);
  const MemoryPlan memory = memory_plan(recipe, devices > 1 ? &all : nullptr);
  if (devices > 1) plan.gathers = gather_plans(recipe);
  plan.weights = memory.weights;
  plan.gradients = memory.gradients;
  plan.weight_copies = memory.weight_copies;
  plan.moments = memory.moments;
  plan.peak = memory.peak;
  if (plan.strands > 1) {
    const Cut made = cut_for(recipe, devices);
    Share most{};
    for (int rank = 0; rank < devices; ++rank) {
      const Share share = share_of(recipe, made, devices, rank);
      if (share.all() > most.all()) most = share;
      if (devices == 1) break;
      const ExchangeVolume volume =
          exchange_volume(made.shards, made.gradients, made.weights, plan.strands, rank);
      plan.sent_by_all += volume.all().sent;
      plan.messages_of_all += volume.all().messages;
      if (volume.all().bytes() > plan.busiest.all().bytes()) plan.busiest = volume;
    }
    plan.sums = most.sums;
    plan.moments = most.moments;
    plan.messages = most.messages;
    plan.peak += most.all() - share_of(recipe, made, devices, 0).all();  // the dry run was rank 0's
  }
  if (recipe.compute.device == "cpu")
    plan.saving = plan.weights + plan.gradients + plan.sums + plan.moments + plan.messages +
                  plan.weight_copies + 2 * (memory.weights + memory.moments);
  return plan;
}

}  // namespace mxtape
