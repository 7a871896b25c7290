#pragma once
#include "program/plan/run_plan.h"

namespace mxtape::stations {

// What plan_through() passes, each in its turn.
void recipe(RunPlan&), data(RunPlan&), devices(RunPlan&), folder(RunPlan&), beginning(RunPlan&),
    settled(RunPlan&), device(RunPlan&), memory(RunPlan&), disk(RunPlan&), notes(RunPlan&);

}  // namespace mxtape::stations
