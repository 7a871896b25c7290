#include "kernels/cuda/cuda_backend.h"

namespace mxtape {

namespace {

// A node of a graph takes about a kilobyte of the host's memory, and a request for memory comes with two or
// three of them. Steps have thousands; a million, as attention with a scale for each head makes of hundreds
// of heads, gain nothing from a graph that takes gigabytes and minutes to make.
constexpr std::int64_t most_recorded_requests = 100'000;

}  // namespace

std::vector<std::string> CudaBackend::choices() const {
  std::vector<std::string> lines = gemms_.chosen();
  for (const auto& [name, repeated] : repeated_)
    if (repeated.too_long)
      lines.push_back(
          fmt::format("a step of {} requests for memory is called, not recorded as a graph: the limit is {}",
                      repeated.too_long, most_recorded_requests));
  return lines;
}

// The first run asks the pool, loads kernels and lets cuBLASLt choose algorithms; the second one shows that
// the planned addresses are what every further run gets; so the third can be written down.
std::vector<Tensor> CudaBackend::repeat(const std::string& name,
                                        const std::function<std::vector<Tensor>()>& work) {
  Repeated& repeated = repeated_[name];
  if (repeated.recording) {
    repeated.recording->replay();
    return repeated.results;
  }
  std::vector<Tensor> results;
  const auto collect = [&] { results = work(); };
  if (!options_.graph || !repeated.follows_plan || repeated.too_long) {
    repeated.follows_plan = arena_.run(name, collect);
    const std::int64_t requests = arena_.report(name).requests;
    repeated.too_long = options_.graph && requests > most_recorded_requests ? requests : 0;
    return results;
  }
  std::unique_ptr<cuda::Recording> recording;
  arena_.run(
      name, [&] { recording = std::make_unique<cuda::Recording>(stream_, name, collect); },
      Arena::Departure::error);
  arena_.pin(name);
  repeated.recording = std::move(recording);
  repeated.results = results;
  repeated.recording->replay();
  return results;
}

void CudaBackend::forget(const std::string& name) {
  repeated_.erase(name);
  arena_.forget(name);
}

}  // namespace mxtape
