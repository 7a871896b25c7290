#pragma once
#include <string>

#include "program/show/report.h"
#include "program/sweep/sweep_plan.h"

namespace mxtape::referee {

struct Words {
  SweepOptions sweep;   ///< the file: a sweep's with [points], or a results.json
  std::string part{};   ///< "3/16"
  bool report = false;  ///< trains nothing
};

/// Whether the words ask for what follows: the file has [points], or a part or a report is wanted.
bool is_asked_for(const Words&);

/// Trains what is to do of each stage in turn, as far as this part may, and writes results.json and
/// report.html; prints the table, or returns what --json says. With `report` of what is there: results.json
/// of the folder, or the file itself, whose page goes to --out. `command`: how it was started. Throws Error
/// as run_sweep().
Report run_referee(const Words&, const std::string& command, bool json);

/// Points, arms, runs, time and disk of each stage; writes nothing. Arms and values that earlier stages have
/// not chosen yet are stood in for by the first ones.
Report referee_plan(const Words&);

}  // namespace mxtape::referee
