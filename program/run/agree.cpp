#include "program/run/run.h"

#include <xxhash.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <vector>

#include "core/parallel.h"
#include "core/threads/affinity.h"
#include "dist/launch.h"
#include "dist/nccl_communicator.h"
#include "dist/together.h"
#include "kernels/choose/gpu.h"
#include "kernels/choose/make_backend.h"
#include "program/records/run_log.h"

namespace mxtape {
namespace {

/// What runs: a version says too little of a program that was built from changed sources.
std::string program_text() {
  std::ifstream file("/proc/self/exe", std::ios::binary);
  std::vector<char> bytes(std::size_t{1} << 20);
  std::uint64_t hash = 0;
  while (file.read(bytes.data(), std::streamsize(bytes.size())), file.gcount() > 0)
    hash = XXH3_64bits_withSeed(bytes.data(), std::size_t(file.gcount()), hash);
  return fmt::format("mxtape {}, program file {:016x}", MXTAPE_VERSION, hash);
}

/// No two processes may have one GPU. `mine`: what it is called on this host, "" if there is none.
void require_own_gpu(Group& group, const std::string& mine) {
  const Place& place = group.place();
  const auto all = group.all_gather(mine.empty() ? "" : place.host + " " + mine, Patience::alone);
  together(&group, [&] {
    for (std::size_t a = 0; a < all.size(); ++a)
      for (std::size_t b = a + 1; b < all.size(); ++b)
        require(all[a].empty() || all[a] != all[b], ExitCode::resource,
                "ranks {} and {} have the same GPU ({}); start as many processes on a host as it has GPUs, "
                "each of which sees its own or all",
                a, b, all[a]);
  });
}

/// Tensors go from GPU to GPU.
void connect_gpus(Devices& devices) {
  Group& group = devices.group();
  NcclCalls nccl{};
  int version = 0;
  together(&group, [&] {
    nccl = load_nccl();
    nccl.get_version(&version);
  });
  require_same(group, ExitCode::resource, "NCCL's version", std::to_string(version),
               "install the same one everywhere");
  devices.use(std::make_unique<NcclCommunicator>(nccl, group, peer_timeout(::getenv)));
}

/// A process that has its processors for itself takes all of them, others their share.
void share_threads(Group& group) {
  const Place& place = group.place();
  const std::string mine = place.host + " " + allowed_processors_text();
  const auto all = group.all_gather(mine, Patience::alone);
  const auto sharing = std::count(all.begin(), all.end(), mine);
  together(&group, [&] { set_threads(std::max(1, allowed_processors() / int(sharing))); });
}

}  // namespace

void agree_on_start(Devices& devices, RunPlan& plan) {
  Group& group = devices.group();
  const Recipe& recipe = plan.recipe;
  require_same(group, ExitCode::usage, "program", program_text(), "install the same one everywhere");
  require_same(group, ExitCode::usage, "recipe", to_toml(recipe),
               "start all with the same words, and the same recipe file");
  require_same(group, ExitCode::usage, "--resume", plan.words.resume, "start all with the same words");
  require_same(group, ExitCode::data, "the content of " + recipe.data.file, "hash " + plan.data->hash,
               "copy one file to all hosts");
  const bool on_gpus = recipe.compute.device == "cuda";
  std::string gpu;
  plan.devices = devices.size();
  plan.sharing = group.place().local_size;
  together(&group, [&] {
    plan_through(plan, Station::devices);
    if (on_gpus) gpu = choose_gpu(group.place().local_rank);
    if (recipe.compute.threads > 0) set_threads(int(recipe.compute.threads));
  });
  std::string arithmetic;
  together(&group, [&] { arithmetic = arithmetic_of(make_backend(recipe.compute.device)->description()); });
  require_same(
      group, ExitCode::resource, "arithmetic", arithmetic,
      "the bits of a run want one instruction set or GPU model, and one library: take equal machines");
  if (recipe.compute.threads == 0) share_threads(group);
  if (!on_gpus) return;
  require_own_gpu(group, gpu);
  connect_gpus(devices);
}

std::string devices_text(Devices& devices, const TrainConfig& train) {
  const std::int64_t rounds = (train.strands + devices.size() - 1) / devices.size();
  const double busy = double(train.strands) / double(rounds * devices.size());
  const std::string group = devices.group().description(), tensors = devices.communicator().description();
  return fmt::format("{}{}; {} strands in {}, {}", group, tensors == group ? "" : ", tensors by " + tensors,
                     train.strands, counted(rounds, "round"),
                     busy == 1 ? "all busy" : fmt::format("{:.0f}% busy", 100 * busy));
}

}  // namespace mxtape
