#include "program/devices/on_all_devices.h"

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <optional>

#include "core/errors/current_error.h"
#include "core/text/short_lines.h"
#include "dist/launch.h"
#include "dist/mpi_group.h"
#include "dist/sockets/socket_communicator.h"
#include "dist/together.h"
#include "program/output.h"

namespace mxtape {
namespace {

const char* variable(const char* name) { return std::getenv(name); }

/// An error of a process that knows its rank, but not the others. Most happen to all, and the launcher ends
/// all when the first one ends with an error: so the others leave rank 0 the time, and speak if they are
/// still there.
[[noreturn]] void refuse(const Error& error, int rank) {
  if (rank == 0) throw error;
  ::sleep(2);
  throw Error(error.code(), fmt::format("rank {}: {}", rank, error.what()));
}

/// Of variables that do not fit together.
int named_rank() {
  for (const char* name : {"RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID"})
    if (const char* const text = variable(name)) return std::atoi(text);
  return 0;
}

/// An error of a process that has not found the others: they cannot be told, so each says its own.
[[noreturn]] void say_alone(const Error& error, const Place& place) {
  std::fflush(stdout);
  const std::string name = place.rank > 0 ? fmt::format("rank {} of {}: ", place.rank, place.size) : "";
  std::fprintf(stderr, "mxtape: %s%s\n", name.c_str(), error.what());
  throw Told(error.code());
}

/// Both planes of a run on CPUs; null for one process.
struct Planes {
  std::unique_ptr<MpiGroup> mpi;
  std::unique_ptr<SocketGroup> sockets;
  std::unique_ptr<SocketCommunicator> connections;

  Group* group() const { return mpi ? static_cast<Group*>(mpi.get()) : sockets.get(); }
  Communicator& communicator() const { return mpi ? static_cast<Communicator&>(*mpi) : *connections; }
};

Planes join(const Launch& launch) {
  Planes planes;
  if (launch.plane == Launch::Plane::none) return planes;
  const double timeout = peer_timeout(variable);
  // Where srun offers PMI to all that it starts, a build without MPI does without it.
  const bool mpi =
      launch.plane == Launch::Plane::mpi && (launch.place.launcher != "srun" || is_mpi_module_there());
  if (mpi) {
    planes.mpi = std::make_unique<MpiGroup>(load_mpi_module(), launch, timeout);
    return planes;
  }
  const Rendezvous at = read_rendezvous(launch, variable);
  try {
    planes.sockets = std::make_unique<SocketGroup>(launch.place, at, timeout);
  } catch (const Told&) {
    throw;
  } catch (const Error& e) {
    say_alone(e, launch.place);
  }
  planes.connections = std::make_unique<SocketCommunicator>(*planes.sockets);
  return planes;
}

/// An error has come out of the work: says why, and tells or ends the other processes. Rank 0 prints before
/// it leaves the group, which the others wait for: the launcher ends all when the first one ends with an
/// error.
[[noreturn]] void end_all(Devices& devices, ExitCode code, const char* why) {
  if (devices.broken() || code == ExitCode::peer || (devices.leads() && devices.rank() > 0))
    devices.group().abandon(code, why);
  std::fflush(stdout);
  if (devices.rank() == 0) std::fprintf(stderr, "mxtape: %s\n", with_short_lines(why).c_str());
  if (devices.rank() == 0 && devices.leads()) {
    try {
      devices.announce("end", std::to_string(int(code)));
    } catch (const Told&) {     // one of them has had its own say
    } catch (const Error& e) {  // one of them is gone, too
      devices.group().abandon(code, e.what());
    }
  }
  throw Told(code);  // else thrown on all, in the same place
}

}  // namespace

void on_all_devices(const std::function<void(Devices*)>& work) {
  Launch launch;
  Planes planes;
  try {
    launch = read_launch(variable);
    planes = join(launch);
  } catch (const Told&) {
    throw;
  } catch (const Error& e) {
    refuse(e, named_rank());
  }
  if (!launch.note.empty()) say(stdout, "{}\n", launch.note);
  if (!planes.group()) return work(nullptr);
  Devices devices(*planes.group(), planes.communicator());
  try {
    work(&devices);
    if (devices.leads() && devices.rank() == 0) devices.announce("end", "0");
  } catch (const Told&) {
    throw;
  } catch (const std::exception&) {
    const Error error = current_error();
    end_all(devices, error.code(), error.what());
  }
}

}  // namespace mxtape
