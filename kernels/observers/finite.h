#pragma once
#include "kernels/observers/observer.h"

namespace mxtape {

/// Looks at every output of every kernel, and at the operands of linear layers' GEMMs before they are
/// multiplied, and throws Error(diverged) at the first number that is NaN or infinite: "gemm: fprop.y [64,
/// 384] holds a number that is not finite at element 7" (names: seen_tensors.h). Waits for the device after
/// each call and reads every output once more: for finding out why a run diverged, and for tests.
class Finite final : public Observer {
 public:
  void before(const Seen&) override;
  void after(const Seen&) override;
  /// MXTAPE_CHECK=1.
  static bool is_asked_for();
};

}  // namespace mxtape
