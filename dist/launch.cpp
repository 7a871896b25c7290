#include "dist/launch.h"

#include <array>
#include <cstdlib>
#include <string_view>

#include "core/error.h"
#include "core/text/number.h"

namespace mxtape {
namespace {

/// The variables of a launcher: both or none.
struct Launcher {
  const char *name, *rank, *size;
};

// Innermost first: what srun or mpirun starts may start others.
constexpr std::array launchers{Launcher{"Open MPI's mpirun", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
                               Launcher{"MPICH's mpirun", "PMI_RANK", "PMI_SIZE"},
                               Launcher{"srun", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS"}};
constexpr Launcher torchrun{"torchrun", "RANK", "WORLD_SIZE"};

int whole_number(std::string_view name, std::string_view found, int least, int most) {
  const int value = number_of<int>(found).value_or(least - 1);
  require(value >= least && value <= most, ExitCode::usage, "{} is '{}'; want a whole number in [{}, {}]",
          name, found, least, most);
  return value;
}

/// RANK alone is anybody's name, and may be left over.
bool several_by_torchrun(const Variables& variables) {
  const char* const size = variables(torchrun.size);
  return variables(torchrun.rank) && size && size != std::string_view("1");
}

}  // namespace

Launch read_launch(const Variables& variables) {
  constexpr int most = 1 << 20;
  const auto has = [&](const char* name) { return variables(name) != nullptr; };
  // It starts processes that MPI knows nothing of.
  if (several_by_torchrun(variables))
    fail(
        ExitCode::usage,
        "RANK={0} and WORLD_SIZE={1}, as torchrun sets them: mxtape does not take its processes from there. "
        "Say --devices {1} without torchrun, and it starts them on this machine; across machines want mpirun "
        "or srun --mpi=pmix (docs/devices.md). Unset both if they are left over from elsewhere",
        variables(torchrun.rank), variables(torchrun.size));
  const bool srun = has("SLURM_STEP_NUM_TASKS");
  for (const Launcher& l : launchers) {
    // Slurm's pmi2 sets PMI_RANK and PMI_SIZE for what srun starts, and MPICH's mpirun always its local rank.
    if (l.rank == std::string_view("PMI_RANK") && srun && !has("MPI_LOCALRANKID")) continue;
    if (l.name == std::string_view("srun") && !srun) continue;  // a batch script has SLURM_PROCID as well
    if (!has(l.rank) && !has(l.size)) continue;
    for (const char* const name : {l.rank, l.size})
      require(has(name), ExitCode::usage,
              "{} has set {}, and {} is not set; want both, or none: unset what is left over from elsewhere",
              l.name, name == l.rank ? l.size : l.rank, name);
    const Launch launch{.size = whole_number(l.size, variables(l.size), 1, most), .launcher = l.name};
    whole_number(l.rank, variables(l.rank), 0, launch.size - 1);
    const bool pmi = has("PMIX_RANK") || has("PMI_FD") || has("PMI_RANK");
    require(launch.launcher != "srun" || launch.size == 1 || pmi, ExitCode::usage,
            "srun has started {} processes without a way to find each other; want srun --mpi=pmix, or one "
            "process and --devices N on one machine (docs/devices.md)",
            launch.size);
    return launch;
  }
  const char* const tasks = variables("SLURM_NTASKS");
  if (!tasks || tasks == std::string_view("1")) return {};
  return {.note = fmt::format(
              "Slurm: SLURM_NTASKS is {}, and this is one process: it was started by the script, not by srun",
              tasks)};
}

int named_rank(const Variables& variables) {
  if (several_by_torchrun(variables)) return std::atoi(variables(torchrun.rank));
  for (const Launcher& l : launchers)
    if (const char* const text = variables(l.rank)) return std::atoi(text);
  return 0;
}

double peer_timeout(const Variables& variables) {
  const char* const text = variables("MXTAPE_PEER_TIMEOUT");
  return text ? whole_number("MXTAPE_PEER_TIMEOUT, in seconds,", text, 1, 1 << 20) : 300;
}

}  // namespace mxtape
