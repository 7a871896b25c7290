#pragma once
#include "kernels/choose/make_backend.h"

namespace mxtape::test {

/// What the test program tests. The same tests are linked with device_cpu.cpp, device_lockstep.cpp or
/// cuda/gpu_main.cpp, which define what is `extern` here.
enum class TestedDevice { cpu, lockstep, cuda };
extern const TestedDevice tested_device;

/// A backend of its own for a test: of the device that the program was linked to test.
std::unique_ptr<Backend> make_device(const BackendOptions& options = {});

/// True if the device records work that repeats.
inline bool device_records() { return tested_device != TestedDevice::cpu; }
inline bool device_is_cpu() { return tested_device == TestedDevice::cpu; }

/// One backend for the whole test program. So a test of a kernel holds for every device; what it reads from
/// tensors it downloads.
inline Backend& device() {
  static const std::unique_ptr<Backend> backend = make_device();
  return *backend;
}

/// The largest relative errors of the device's elementary functions, in units of roundoff u = 2^-24.
struct Elementary {
  double exp;           ///< of 2^x
  double exp_argument;  ///< of e^x besides, for every unit of |x|
  double reciprocal;    ///< of 1 / x
};
inline Elementary elementary() {
  // kernels/cpu/loops/simd_math.h: 1 ulp, at any argument; a division.
  if (device_is_cpu()) return {.exp = 2, .exp_argument = 0, .reciprocal = 1};
  // PTX ISA: ex2.approx 2^-22, rcp.approx 2^-23. e^x = 2^(x log2 e): the product is rounded, and so is log2
  // e, by less than a quarter of a unit.
  return {.exp = 4, .exp_argument = 1.25, .reciprocal = 2};
}

}  // namespace mxtape::test
