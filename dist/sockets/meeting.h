#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "dist/group.h"
#include "dist/sockets/channel.h"
#include "dist/sockets/door.h"
#include "dist/sockets/rendezvous.h"

namespace mxtape {

/// A process of the run as another one reaches it.
struct Member {
  std::string host;     ///< its name
  std::string address;  ///< where it is reached; "": as rank 0 was
  int port = 0;         ///< where it listens
};

/// What a process knows once all have met.
struct Meeting {
  std::vector<Member> members;    ///< by rank
  std::uint64_t secret = 0;       ///< rank 0's random number: by it the members know each other from now on
  std::vector<Channel> channels;  ///< by rank, a connection to each other member; closed for this one
};

/// Finds the other processes: all tell rank 0 where they are, rank 0 tells all, and each connects to those
/// below it. Throws Error(peer) for those who do not come within `seconds`, named by rank and host where
/// known, Error(usage) on rank 0 for two of one rank or other numbers of processes, and Told where rank 0
/// says why.
Meeting meet(const Rendezvous&, const Place&, double seconds);

/// Rank 0's side of it.
Meeting receive_all(const Rendezvous&, const Place&, double seconds);

/// One more connection between each two of the members, each of which listens at `door` and has said so in
/// `members`. `first`: the lowest rank that takes part. `meanwhile` is called while it waits, and throws if
/// the run has ended.
std::vector<Socket> connect_all(const Place&, const std::vector<Member>& members, std::uint64_t secret,
                                Door& door, int first, double seconds,
                                const std::function<void()>& meanwhile);

/// "node1, ports 29501 to 29516".
std::string where(const Rendezvous&);
/// A listener where the other processes can reach it; port 0: any. Empty if the port is taken.
Socket listen_for(const Rendezvous&, int port, int waiting);

/// "ranks 1, 3 of 4".
std::string ranks_text(const std::vector<int>& ranks, int size);

}  // namespace mxtape
