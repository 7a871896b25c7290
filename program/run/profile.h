#pragma once
#include <map>
#include <string>
#include <vector>

#include "data/hdf5/token_file.h"
#include "kernels/observers/timing.h"
#include "program/plan/run_plan.h"

namespace mxtape {

/// What a device does at best, measured by calls of its own. Per second.
struct DevicePeaks {
  double bf16_flops, f32_flops;  ///< a GEMM of 1536 x 1536 x 1536
  double integer_ops;            ///< of codes in blocks of 32, the same; 0 where the device has none
  double bytes;                  ///< a copy of 64 MiB, read and written
};

/// Calls that are counted together, over all measured steps.
struct ProfileRow {
  std::string name;  ///< "gemm fprop", "blocks.0.attn.qkv", or both
  Timing::Work work;
};
/// The step's calls by kernel and slot, by layer, or by both; the most time first.
enum class ProfileBy : std::uint8_t { kernel, layer, call };

struct Profile {
  Recipe recipe;  ///< as it ran, the vocabulary filled in
  std::string device;
  std::string data;  ///< the token file, or that they are random tokens
  DevicePeaks peaks;
  std::int64_t steps = 0;
  double step_seconds = 0;     ///< median of undisturbed steps: nothing is timed inside of them
  double watched_seconds = 0;  ///< mean of the steps in which each call was timed
  std::map<Timing::Place, Timing::Work> work{};

  std::vector<ProfileRow> rows(ProfileBy) const;
  /// The part of its time that the row's calls would take at the device's peaks: operations or bytes, what
  /// takes longer.
  double limit_share(const Timing::Work&) const;
};

/// Two splits of random tokens of model.vocabulary, long enough for a batch. Throws Error(usage) if that is
/// 0.
TokenFile random_tokens(const Recipe&);

/// Runs `steps` optimizer steps of the recipe as they are, and as many in which every call is timed, after
/// one that sets things up. The data are the recipe's; where its file is not there, random tokens of
/// model.vocabulary, which must be set then. Writes nothing.
Profile profile(RunPlan, std::int64_t steps);

/// Median seconds of so many steps of what is planned through its memory, after one that sets things up.
double step_seconds(const RunPlan&, std::int64_t steps);

/// Its table.
void put_rows(Report&, const Profile&, ProfileBy);
/// Lines "forward;blocks.0.attn.qkv;gemm fprop 1234", microseconds a step: what flame-graph programs read.
std::string folded_stacks(const Profile&);

}  // namespace mxtape
