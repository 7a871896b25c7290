#pragma once
#include <cstdint>
#include <string>

#include "dist/launch.h"

namespace mxtape {

/// Where the processes of a run look for rank 0, and by what they know each other.
struct Rendezvous {
  std::string host;     ///< of rank 0; "" if all are on one
  int first_port = 0;   ///< the first free one of `ports` from here on is rank 0's
  std::uint64_t token;  ///< of the run: a process with another one belongs to another run
  bool one_host = false;

  static constexpr int ports = 16;
};

/// Reads what the launcher says of it. torchrun: MASTER_ADDR and the ports beside MASTER_PORT, which its own
/// agent may hold. srun: the first host of SLURM_STEP_NODELIST, and ports by job and step. MXTAPE_RUN_ID, any
/// text, keeps runs apart that have the same of all this. Throws Error(usage) for what is missing or cannot
/// be.
Rendezvous read_rendezvous(const Launch&, const Variables&);

/// The first host of Slurm's list: "rack1-gpu07" of "rack[1-2]-gpu[07-09,12],login". Throws Error(usage).
std::string first_host(const std::string& list);

}  // namespace mxtape
