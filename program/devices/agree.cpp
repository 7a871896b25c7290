#include "program/devices/agree.h"

#include <xxhash.h>

#include <algorithm>
#include <fstream>
#include <vector>

#include "core/parallel.h"
#include "core/threads/affinity.h"
#include "dist/together.h"
#include "kernels/choose/make_backend.h"

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

/// The device's description without its threads, on which no bit depends.
std::string arithmetic_of(const ComputeConfig& compute) {
  const std::string text = make_backend(compute.device)->description();
  return text.substr(0, text.rfind(','));
}

/// A process that has its processors for itself takes all of them, others their share.
void share_threads(Group& group) {
  const Place& place = group.place();
  const std::string mine = place.host + " " + allowed_processors_text();
  const auto all = group.all_gather(mine, Patience::alone);
  const auto sharing = std::count(all.begin(), all.end(), mine);
  set_threads(std::max(1, allowed_processors() / int(sharing)));
}

}  // namespace

void require_strands(const TrainConfig& train, int devices) {
  if (train.strands >= devices) return;
  // The step's micro-batches, cut otherwise; more of them where they are too few.
  const std::int64_t passes = train.passes();
  std::int64_t strands = devices;
  while (strands < passes && passes % strands != 0) ++strands;
  const std::int64_t accumulation = std::max<std::int64_t>(1, passes / strands);
  fail(ExitCode::usage,
       "train.strands = {}: {} can share a step, and there are {}; want, say, --train.strands={} "
       "--train.accumulation={}{}",
       train.strands, train.strands == 1 ? "one device" : fmt::format("{} devices", train.strands), devices,
       strands, accumulation,
       strands * accumulation == passes ? ", the same step with its sums in another order" : "");
}

void agree_on_start(Devices& devices, const Recipe& recipe, const TokenFile& data) {
  Group& group = devices.group();
  require_same(group, ExitCode::usage, "program", program_text(), "install the same one everywhere");
  require_same(group, ExitCode::usage, "recipe", to_toml(recipe),
               "start all with the same words, and the same recipe file");
  require_same(group, ExitCode::data, "the content of " + recipe.data.file, "hash " + data.hash,
               "copy one file to all hosts");
  together(&group, [&] {
    require_strands(recipe.train, devices.size());
    require(
        recipe.compute.device == "cpu", ExitCode::usage,
        "compute.device = {}: several processes share a run on CPUs alone in this mxtape; want cpu, or one "
        "process",
        recipe.compute.device);
    if (recipe.compute.threads > 0) set_threads(int(recipe.compute.threads));
  });
  std::string arithmetic;
  together(&group, [&] { arithmetic = arithmetic_of(recipe.compute); });
  require_same(group, ExitCode::resource, "arithmetic", arithmetic,
               "the bits of a run want one instruction set and one library: take equal machines");
  if (recipe.compute.threads == 0) share_threads(group);
}

std::string devices_text(Devices& devices, const TrainConfig& train) {
  const std::int64_t rounds = (train.strands + devices.size() - 1) / devices.size();
  const double busy = double(train.strands) / double(rounds * devices.size());
  return fmt::format("{}; {} strands in {} round{}, {}", devices.group().description(), train.strands, rounds,
                     rounds == 1 ? "" : "s",
                     busy == 1 ? "all busy" : fmt::format("{:.0f}% busy", 100 * busy));
}

}  // namespace mxtape
