#pragma once
#include "kernels/observers/finite.h"
#include "program/records/telemetry.h"
#include "program/run/trace.h"

namespace mxtape {

/// A run's device, which must live as long as this, with those who look at it: what runs in the first step of
/// each phase, what the recipe's telemetry asks for, and MXTAPE_CHECK.
struct ObservedDevice {
  Trace trace{};
  Measure measure;
  Finite finite{};
  ObservingBackend backend;

  ObservedDevice(Backend& device, const Recipe& recipe)
      : measure(measuring_options(recipe)), backend(device, {&trace, &measure}) {
    if (Finite::is_asked_for()) backend.add(finite);
  }
};

}  // namespace mxtape
