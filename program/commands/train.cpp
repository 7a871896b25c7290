#include <unistd.h>

#include <cstdio>
#include <cstdlib>

#include "core/current_error.h"
#include "core/text/short_lines.h"
#include "dist/devices.h"
#include "dist/launch.h"
#include "dist/mpi/mpi_group.h"
#include "dist/pairs/pair_group.h"
#include "dist/together.h"
#include "program/run/run.h"
#include "program/run/stop_signals.h"
#include "program/show/command.h"
#include "program/show/streams.h"

namespace mxtape {
namespace {

struct Arguments {
  RunWords words;
  int devices = 0;
};

/// An error of a process that knows its rank, but not the others. Most happen to all, and the launcher ends
/// all when the first one ends with an error: so the others leave rank 0 the time, and speak if they are
/// still there.
[[noreturn]] void refuse(const Error& error, int rank) {
  if (rank == 0) throw error;
  ::sleep(2);
  throw Error(error.code(), fmt::format("rank {}: {}", rank, error.what()));
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
    } catch (const Error& e) {  // one of them is gone, too
      devices.group().abandon(code, e.what());
    }
  }
  throw SaidElsewhere(code);  // else thrown on all, in the same place
}

/// Does the work of a command that several processes of one run may do together (docs/devices.md): those that
/// mpirun or srun has started, or this one and what it forks, `wanted` in all (0: not said). So it comes
/// before anything else. `work` gets the devices, or null where this process is the only one. An error ends
/// all processes, and one of them says why: then this throws SaidElsewhere, or what is to be printed.
void on_all_devices(int wanted, const std::function<void(Devices*)>& work) {
  std::unique_ptr<MpiGroup> mpi;
  std::unique_ptr<PairGroup> pairs;
  try {
    const Launch launch = read_launch(::getenv);
    require(wanted == 0 || launch.size == 1 || wanted == launch.size, ExitCode::usage,
            "--devices {}: {} has started {} processes; it starts all of a run (docs/devices.md)", wanted,
            launch.launcher, launch.size);
    if (!launch.note.empty() && wanted == 0) say(stdout, "{}\n", launch.note);
    const double timeout = launch.size > 1 || wanted > 1 ? peer_timeout(::getenv) : 0;
    if (launch.size > 1)
      mpi = std::make_unique<MpiGroup>(load_mpi_module(), launch, timeout);
    else if (wanted > 1)
      pairs = std::make_unique<PairGroup>(fork_ranks(wanted), timeout);
  } catch (const Error& e) {
    refuse(e, named_rank(::getenv));
  }
  if (!mpi && !pairs) return work(nullptr);
  Group& group = mpi ? static_cast<Group&>(*mpi) : *pairs;
  Devices devices(group, mpi ? static_cast<Communicator&>(*mpi) : *pairs);
  try {
    work(&devices);
    if (devices.leads() && devices.rank() == 0) devices.announce("end", "0");
  } catch (const SaidElsewhere&) {
    throw;
  } catch (const std::exception&) {
    const Error error = current_error();
    end_all(devices, error.code(), error.what());
  }
}

Options options(Arguments& a) {
  Options rows = run_options(a.words);
  rows.push_back(
      {"--devices", &a.devices,
       "train on so many processes of this machine, each with a GPU or its share of the processors; "
       "under mpirun or srun of several: refuse another number than they have started",
       within(1, 4096)});
  return rows;
}

void run(Arguments& a, const Given& given) {
  keep_early_requests();
  on_all_devices(a.devices, [&](Devices* devices) {
    together(devices ? &devices->group() : nullptr, [&] { take_rest(a.words, given); });
    if (a.devices > 0) a.words.command += fmt::format(" --devices {}", a.devices);
    train(RunPlan(a.words), devices);
  });
}

}  // namespace

Command commands::train() {
  return {"train", "Train a recipe: header, progress, validation, checkpoints, a sample", with(options, run),
          "Every key of a recipe is an option too: --section.key=value (mxtape check RECIPE --all lists "
          "them).",
          true};
}

}  // namespace mxtape
