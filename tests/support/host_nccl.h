#pragma once
#include "dist/nccl_calls.h"
#include "tests/support/mail.h"

namespace mxtape::test {

/// NCCL's calls between forked processes whose GPUs are run on the host (tests/support/lockstep/): bytes
/// travel over sockets, when the stream that they were asked for on comes to them. An error of the library,
/// as it would say it or as it would hang without a word: calls outside of a group, a group that is not
/// ended, a message of another length than is wanted, a rank that has another id. What a peer never sends is
/// never there. `sockets`: by rank. One communicator a process.
NcclCalls host_nccl(const std::vector<int>& sockets);
/// What moved so far.
struct HostNcclCount {
  std::int64_t exchanges = 0, messages = 0, bytes = 0;  ///< sent
};
HostNcclCount host_nccl_count();

}  // namespace mxtape::test
