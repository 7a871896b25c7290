#include "program/devices/on_all_devices.h"

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <optional>

#include "core/errors/current_error.h"
#include "dist/launch.h"
#include "dist/mpi_group.h"
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

/// An error has come out of the work: says why, and tells or ends the other processes. Rank 0 prints before
/// it leaves MPI, which the others wait for: the launcher ends all when the first one ends with an error.
[[noreturn]] void end_all(Devices& devices, ExitCode code, const char* why) {
  if (devices.broken() || code == ExitCode::peer || (devices.leads() && devices.rank() > 0))
    devices.group().abandon(code, why);
  std::fflush(stdout);
  if (devices.rank() == 0) std::fprintf(stderr, "mxtape: %s\n", why);
  if (devices.rank() == 0 && devices.leads()) {
    try {
      devices.announce("end", std::to_string(int(code)));
    } catch (const Error& e) {  // one of them is gone, too
      devices.group().abandon(code, e.what());
    }
  }
  throw Told(code);  // else thrown on all, in the same place
}

}  // namespace

void on_all_devices(const std::function<void(Devices*)>& work) {
  Launch launch;
  std::unique_ptr<MpiGroup> group;
  try {
    launch = read_launch(variable);
    require(
        launch.plane != Launch::Plane::sockets, ExitCode::usage,
        "{} has started {} processes, and they would find each other by sockets, which this mxtape does not "
        "know; start them with mpirun (docs/devices.md)",
        launch.place.launcher, launch.place.size);
    if (launch.plane == Launch::Plane::mpi)
      group = std::make_unique<MpiGroup>(load_mpi_module(), launch, peer_timeout(variable));
  } catch (const Error& e) {
    refuse(e, named_rank());
  }
  if (!launch.note.empty()) say(stdout, "{}\n", launch.note);
  if (!group) return work(nullptr);
  Devices devices(*group, *group);
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
