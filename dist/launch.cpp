#include "dist/launch.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <string_view>

namespace mxtape {
namespace {

/// The variables of a launcher; all of `wanted` or none.
struct Launcher {
  std::string_view name;
  const char *rank, *size, *local_rank, *local_size;  ///< local_size may be missing
  bool more_of_srun = false;                          ///< srun may set some of them as well
  std::array<const char*, 3> wanted() const { return {rank, size, local_rank}; }
};

// Innermost first: what srun or mpirun starts may start others.
constexpr std::array launchers{
    Launcher{"Open MPI's mpirun", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE",
             "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE"},
    Launcher{"MPICH's mpirun", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS", true},
    Launcher{"srun", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID", nullptr},
};

class Reader {
 public:
  explicit Reader(const Variables& variables) : variables_(variables) {}

  const char* text(const char* name) const { return name ? variables_(name) : nullptr; }

  int number(const Launcher& l, const char* name, int least) const {
    const std::string_view found = text(name);
    int value = -1;
    const auto [end, error] = std::from_chars(found.data(), found.data() + found.size(), value);
    require(error == std::errc() && end == found.data() + found.size() && value >= least, ExitCode::usage,
            "{}: {} is '{}'; want a whole number from {} on; {}", l.name, name, found, least, seen(l));
    return value;
  }

  /// "seen: RANK=0, WORLD_SIZE not set, ..."
  std::string seen(const Launcher& l) const {
    std::string all = "seen:";
    for (const char* name : l.wanted())
      all += fmt::format("{} {}{}{}", all.size() > 5 ? "," : "", name, text(name) ? "=" : " not set",
                         text(name) ? text(name) : "");
    return all;
  }

  std::optional<Launch> read(const Launcher& l) const {
    const auto wanted = l.wanted();
    const auto set =
        std::count_if(wanted.begin(), wanted.end(), [&](const char* name) { return text(name); });
    if (set == 0) return {};
    require(std::size_t(set) == wanted.size(), ExitCode::usage,
            "{}'s variables are not all set; {}; want all of them, or none: unset what is left over from "
            "elsewhere",
            l.name, seen(l));
    Launch launch;
    Place& place = launch.place;
    place.launcher = l.name;
    place.rank = number(l, l.rank, 0);
    place.size = number(l, l.size, 1);
    place.local_rank = number(l, l.local_rank, 0);
    if (text(l.local_size)) place.local_size = number(l, l.local_size, 1);
    require(place.rank < place.size, ExitCode::usage, "{}: {} is not below {}; {}", l.name, l.rank, l.size,
            seen(l));
    return launch;
  }

 private:
  const Variables& variables_;
};

/// torchrun starts processes that MPI knows nothing of.
void refuse_torchrun(const Reader& reader) {
  const char *const rank = reader.text("RANK"), *const size = reader.text("WORLD_SIZE");
  require(!rank || !size || std::string_view(size) == "1", ExitCode::usage,
          "RANK={0} and WORLD_SIZE={1}, as torchrun sets them: mxtape does not take its processes from "
          "there. Say --devices {1} without torchrun, and it starts them on this machine; across machines "
          "want mpirun or srun --mpi=pmix (docs/devices.md). Unset both if they are left over from elsewhere",
          rank, size);
}

}  // namespace

Launch read_launch(const Variables& variables) {
  const Reader reader(variables);
  refuse_torchrun(reader);
  for (const Launcher& l : launchers) {
    if (l.name == "srun") {
      // A batch script has some of them too, and is one process.
      if (!reader.text("SLURM_STEP_NUM_TASKS")) {
        Launch one;
        const char* const tasks = reader.text("SLURM_NTASKS");
        if (tasks && std::string_view(tasks) != "1")
          one.note = fmt::format(
              "Slurm: SLURM_NTASKS is {}, and this is one process: it was started by the script, not by srun",
              tasks);
        return one;
      }
    }
    // Slurm's pmi2 sets PMI_RANK and PMI_SIZE for what srun starts, and MPICH's mpirun always its local rank.
    if (l.more_of_srun && !reader.text(l.local_rank) && reader.text("SLURM_STEP_NUM_TASKS")) continue;
    auto launch = reader.read(l);
    if (!launch) continue;
    const bool pmi = reader.text("PMIX_RANK") || reader.text("PMI_FD") || reader.text("PMI_RANK");
    require(l.name != "srun" || launch->place.size == 1 || pmi, ExitCode::usage,
            "srun has started {} processes without a way to find each other; want srun --mpi=pmix, or one "
            "process and --devices N on one machine (docs/devices.md)",
            launch->place.size);
    return *launch;
  }
  return {};
}

double peer_timeout(const Variables& variables) {
  const char* const text = variables("MXTAPE_PEER_TIMEOUT");
  if (!text) return 300;
  const std::string_view found = text;
  int value = 0;
  const auto [end, error] = std::from_chars(found.data(), found.data() + found.size(), value);
  require(error == std::errc() && end == found.data() + found.size() && value >= 1 && value <= 1 << 20,
          ExitCode::usage, "MXTAPE_PEER_TIMEOUT is '{}'; want seconds, a whole number in [1, 1048576]",
          found);
  return value;
}

}  // namespace mxtape
