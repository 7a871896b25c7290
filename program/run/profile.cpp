#include "program/run/profile.h"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <functional>

#include "core/random.h"
#include "program/records/paired_gap.h"
#include "program/show/progress.h"

namespace mxtape {
namespace {

using Place = Timing::Place;
using Work = Timing::Work;

double seconds_of(const std::function<void()>& work) {
  const auto begin = std::chrono::steady_clock::now();
  work();
  return seconds_since(begin);
}

double least_seconds(const std::function<void()>& work) {  // of five: a peak is what a device can do
  double least = seconds_of(work);
  for (int i = 1; i < 5; ++i) least = std::min(least, seconds_of(work));
  return least;
}

constexpr std::int64_t side = 1536;  // of the GEMMs that tell a device's peaks

double gemm_rate(Backend& backend, const Rounded& a, const Rounded& b) {
  const Tensor c = backend.empty({side, side});
  const double seconds = least_seconds([&] { backend.run(call::Gemm{c, a, b}), backend.wait(); });
  return 2.0 * double(side) * double(side) * double(side) / seconds;
}
double gemm_rate(Backend& backend, DType dtype) {
  const Tensor a = backend.empty({side, side}, dtype), b = backend.empty({side, side}, dtype);
  backend.fill(a, 1), backend.fill(b, 1);
  return gemm_rate(backend, unrounded(a), unrounded(b));
}
double integer_rate(Backend& backend) {
  if (backend.gemm_kernels() != GemmKernels::integer) return 0;
  const Tensor x = backend.empty({side, side});
  backend.fill(x, 1);
  const Rounded codes = with_room(backend, wanted(mxfp4, Axis::row, x.shape(), Layout::codes));
  backend.run(call::Quantize{{&codes, 1}, x});
  return gemm_rate(backend, codes, codes);
}

DevicePeaks measure_peaks(Backend& backend) {
  const Tensor x = backend.empty({1 << 24}), y = backend.empty({1 << 24});
  backend.fill(x, 1);
  return {.bf16_flops = gemm_rate(backend, DType::bf16),
          .f32_flops = gemm_rate(backend, DType::f32),
          .integer_ops = integer_rate(backend),
          .bytes = 2 * double(x.bytes()) / least_seconds([&] { backend.copy(y, x), backend.wait(); })};
}

std::string call_name(const Place& place) {
  const char* const pass = place.layer.empty() ? "" : place.backward ? ", backward" : "";
  return place.kernel + (place.slot.empty() ? "" : " " + place.slot) + pass;
}
std::string layer_name(const Place& place) { return place.layer.empty() ? "outside of layers" : place.layer; }

}  // namespace

TokenFile random_tokens(const Recipe& recipe) {
  require(recipe.model.vocabulary > 0, ExitCode::usage,
          "data.file '{}' is not there, and model.vocabulary is 0; set one of the two", recipe.data.file);
  require(recipe.data.file.empty() || recipe.origin("data.file") != "command line", ExitCode::usage,
          "data.file '{}' is not there; leave it out to profile with random tokens", recipe.data.file);
  TokenFile data;
  data.tokenizer = Tokenizer::of_ids(recipe.model.vocabulary);
  std::vector<std::int32_t> tokens;
  const DrawKey key{.seed = recipe.seed, .purpose = Purpose::sampling};
  for (std::int64_t i = 0; i < std::max<std::int64_t>(1 << 16, 2 * recipe.model.context); ++i)
    tokens.push_back(std::int32_t(double(key.uniform(std::uint64_t(i))) * double(recipe.model.vocabulary)));
  data.train = data.validation = Split::from_tokens(tokens, recipe.model.vocabulary);
  return data;
}

std::vector<ProfileRow> Profile::rows(ProfileBy by) const {
  std::map<std::string, Work> sums;
  for (const auto& [place, of_place] : work) {
    const std::string call = call_name(place), layer = layer_name(place);
    sums[by == ProfileBy::kernel ? call : by == ProfileBy::layer ? layer : layer + "  " + call] += of_place;
  }
  std::vector<ProfileRow> all;
  for (const auto& [name, of_name] : sums) all.push_back({name, of_name});
  std::ranges::stable_sort(all, [](const auto& a, const auto& b) { return a.work.seconds > b.work.seconds; });
  return all;
}

double Profile::limit_share(const Work& w) const {
  const double computing = w.bf16_flops / peaks.bf16_flops + w.f32_flops / peaks.f32_flops +
                           (w.integer_ops > 0 ? w.integer_ops / peaks.integer_ops : 0);
  return std::max(computing, w.bytes / peaks.bytes) / w.seconds;
}

double step_seconds(const RunPlan& plan, std::int64_t steps) {
  Trainer trainer(*plan.device, plan.recipe, *plan.data);
  trainer.step();
  std::vector<double> seconds;
  for (std::int64_t i = 0; i < steps; ++i)
    seconds.push_back(seconds_of([&] { trainer.step(), plan.device->wait(); }));
  return median(seconds);
}

Profile profile(RunPlan plan, std::int64_t steps) {
  Recipe& recipe = plan.recipe;
  const bool has_data = !recipe.data.file.empty() && std::filesystem::exists(recipe.data.file);
  if (!has_data) plan.data = std::make_shared<const TokenFile>(random_tokens(recipe));
  recipe.schedule.start = recipe.optim.start = 0;
  recipe.train.init.clear(), plan.begin.weights.reset();  // any weights take the same time
  plan_through(plan, Station::memory);
  Backend& device = *plan.device;
  Profile profile{.recipe = recipe,
                  .device = device.description(),
                  .data = has_data ? recipe.data.file : "random tokens",
                  .peaks = measure_peaks(device),
                  .steps = steps};
  device.trim();
  profile.step_seconds = step_seconds(plan, steps);
  Timing timing;
  ObservingBackend watched(device, {&timing});
  Trainer trainer(watched, recipe, *plan.data);
  trainer.step();
  timing.clear();
  profile.watched_seconds = seconds_of([&] {
                              for (std::int64_t i = 0; i < steps; ++i) trainer.step();
                            }) /
                            double(steps);
  profile.work = timing.work();
  return profile;
}

void put_rows(Report& out, const Profile& profile, ProfileBy by) {
  Table& table =
      out.table("rows",
                "name|" + std::string(by == ProfileBy::layer ? "layer" : "call") +
                    "; calls|calls|>7.6g; ms|ms a step|>10.3f; |%|>6.1f; |GFLOP/s|>9.1f; |GB/s|>8.1f; bytes; "
                    "bf16_flops; f32_flops; integer_ops; limit_share|% limit|>8",
                "", 1);
  const double steps = double(profile.steps), all = profile.watched_seconds;
  double inside = 0;
  for (const auto& [name, w] : profile.rows(by)) {
    inside += w.seconds / steps;
    const double flops = w.bf16_flops + w.f32_flops + w.integer_ops, share = profile.limit_share(w);
    table.row(name, double(w.calls) / steps, 1e3 * w.seconds / steps, 100 * w.seconds / steps / all,
              flops > 0 ? Value(1e-9 * flops / w.seconds) : "", 1e-9 * w.bytes / w.seconds, w.bytes / steps,
              w.bf16_flops / steps, w.f32_flops / steps, w.integer_ops / steps,
              Value(share, "", fmt::format("{:.0f}", 100 * share)));
  }
  table.row("between calls", "", 1e3 * (all - inside), 100 * (1 - inside / all), "", "", "", "", "", "", "")
      .whom = Table::Row::For::people;
}

std::string folded_stacks(const Profile& profile) {
  std::string out;
  for (const auto& [place, work] : profile.work) {
    const char* const pass = place.layer.empty() ? "update" : place.backward ? "backward" : "forward";
    out += fmt::format("{};{};{}{} {:.0f}\n", pass, layer_name(place), place.kernel,
                       place.slot.empty() ? "" : " " + place.slot,
                       std::max(1.0, 1e6 * work.seconds / double(profile.steps)));
  }
  return out;
}

}  // namespace mxtape
