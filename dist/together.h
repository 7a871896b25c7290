#pragma once
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "core/error.h"

namespace mxtape {

/// Which process of a run this is.
struct Place {
  int rank = 0, size = 1;              ///< of all processes
  int local_rank = 0, local_size = 1;  ///< of those on this host
  std::string host, launcher;          ///< "Open MPI's mpirun"; "" for those of one machine
};

/// How long the others may take: a step, or work that one of them does alone, as saving a checkpoint is.
enum class Patience : std::uint8_t { step, alone };

/// The host plane of a run on several devices, one process each: small messages, decisions, and the end of
/// all.
class Group {
 public:
  virtual ~Group() = default;
  virtual const Place& place() const = 0;
  virtual std::string description() const = 0;  ///< "Open MPI v4.1.4, 4 processes on 2 hosts"
  /// Everyone's bytes by rank; lengths may differ. Blocks. Throws Error(peer), which names the ranks that did
  /// not answer within the deadline (docs/devices.md).
  virtual std::vector<std::string> all_gather(std::string_view mine, Patience = Patience::step) = 0;
  /// Says why, once for the run, and ends every process. The run's exit code is `code`.
  [[noreturn]] virtual void abandon(ExitCode code, std::string_view why) noexcept = 0;
};

/// An error that another process of the run prints.
class SaidElsewhere : public Error {
 public:
  explicit SaidElsewhere(ExitCode code) : Error(code, "another process of the run says why") {}
};

/// Runs work on all ranks, each for itself. If it throws on one, the error of the lowest such rank is thrown
/// on all: on rank 0 with the rank and host in front if they are not its own, elsewhere as SaidElsewhere.
/// Null: work() alone.
void together(Group*, const std::function<void()>& work);

/// Throws on all ranks if `mine` is not the same text everywhere, naming `what`, the first rank that differs,
/// its host and both texts; `advice` follows.
void require_same(Group&, ExitCode, std::string_view what, std::string_view mine, std::string_view advice);

/// "rank 3 of 8 (host)"; without a host where all are on one.
std::string name_of(const Place&);

}  // namespace mxtape
