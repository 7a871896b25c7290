#include "dist/sockets/rendezvous.h"

#include <xxhash.h>

#include <charconv>

namespace mxtape {
namespace {

constexpr int last_port = 65535;

std::string text_of(const Variables& variables, const char* name) {
  const char* const text = variables(name);
  return text ? text : "";
}

std::string wanted(const Launch& launch, const Variables& variables, const char* name) {
  const std::string text = text_of(variables, name);
  require(!text.empty(), ExitCode::usage,
          "{}: {} is not set; the processes of a run find each other by it, so want it on all of them",
          launch.place.launcher, name);
  return text;
}

bool is_loopback(const std::string& host) {
  return host == "localhost" || host == "::1" || host.starts_with("127.");
}

Rendezvous of_torchrun(const Launch& launch, const Variables& variables) {
  const Place& place = launch.place;
  const std::string host = wanted(launch, variables, "MASTER_ADDR");
  const std::string text = wanted(launch, variables, "MASTER_PORT");
  int port = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), port);
  require(error == std::errc() && end == text.data() + text.size() && port >= 1 && port <= last_port,
          ExitCode::usage, "{}: MASTER_PORT is '{}'; want a port, a whole number in [1, {}]", place.launcher,
          text, last_port);
  const bool room_above = port + Rendezvous::ports <= last_port;
  // An address of the loopback is taken at its word; a name may be this host's for itself alone.
  const bool one_host = place.local_size == place.size || is_loopback(host);
  return {.host = one_host && !is_loopback(host) ? "" : host,
          .first_port = room_above ? port + 1 : port - Rendezvous::ports,
          .token = XXH3_64bits(text.data(), text.size()),
          .one_host = one_host};
}

Rendezvous of_srun(const Launch& launch, const Variables& variables) {
  const std::string host = first_host(wanted(launch, variables, "SLURM_STEP_NODELIST"));
  const std::string step =
      wanted(launch, variables, "SLURM_JOB_ID") + "." + wanted(launch, variables, "SLURM_STEP_ID");
  const std::uint64_t token = XXH3_64bits(step.data(), step.size());
  // Below those that systems give out by themselves, from 32768 on.
  constexpr int lowest = 20480, ranges = 512;
  const bool one_host = text_of(variables, "SLURM_STEP_NUM_NODES") == "1";
  return {.host = one_host ? "" : host,
          .first_port = lowest + int(token % ranges) * Rendezvous::ports,
          .token = token,
          .one_host = one_host};
}

}  // namespace

std::string first_host(const std::string& list) {
  std::string host;
  bool inside = false, taken = false;  // brackets, and the first number of them
  for (const char c : list) {
    if (c == '[') {
      inside = true, taken = false;
    } else if (c == ']') {
      inside = false;
    } else if (!inside && c == ',') {
      break;
    } else if (inside && (c == '-' || c == ',')) {
      taken = true;
    } else if (!inside || !taken) {
      host += c;
    }
  }
  require(!host.empty() && !inside, ExitCode::usage,
          "SLURM_STEP_NODELIST is '{}'; want hosts, like node1 or node[01-04,07]", list);
  return host;
}

Rendezvous read_rendezvous(const Launch& launch, const Variables& variables) {
  Rendezvous all =
      launch.place.launcher == "srun" ? of_srun(launch, variables) : of_torchrun(launch, variables);
  for (const char* name : {"TORCHELASTIC_RUN_ID", "MXTAPE_RUN_ID"}) {
    const std::string text = text_of(variables, name);
    all.token = XXH3_64bits_withSeed(text.data(), text.size(), all.token);
  }
  return all;
}

}  // namespace mxtape
