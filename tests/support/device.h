#pragma once
#include "kernels/choose/make_backend.h"
#ifdef MXTAPE_TEST_LOCKSTEP
#include "tests/support/lockstep/make_lockstep_backend.h"
#endif

namespace mxtape::test {

/// What the test program tests, for claims that depend on the machine's arithmetic.
enum class TestedDevice { cpu, lockstep, cuda };
#if defined(MXTAPE_TEST_LOCKSTEP)
inline constexpr TestedDevice tested_device = TestedDevice::lockstep;
#elif defined(MXTAPE_TEST_CUDA)
inline constexpr TestedDevice tested_device = TestedDevice::cuda;
#else
inline constexpr TestedDevice tested_device = TestedDevice::cpu;
#endif

/// A backend of its own for a test: the CPU's, or of the device that the program was built to test.
inline std::unique_ptr<Backend> make_device(const BackendOptions& options = {}) {
#if defined(MXTAPE_TEST_LOCKSTEP)
  return make_lockstep_backend(options);
#elif defined(MXTAPE_TEST_CUDA)
  return make_backend("cuda", options);
#else
  return make_backend("cpu", options);
#endif
}

/// True if the device records work that repeats.
inline constexpr bool device_records = tested_device != TestedDevice::cpu;

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
#if defined(MXTAPE_TEST_LOCKSTEP) || defined(MXTAPE_TEST_CUDA)
// PTX ISA: ex2.approx 2^-22, rcp.approx 2^-23. e^x = 2^(x log2 e): the product is rounded, and so is log2 e,
// by less than a quarter of a unit.
inline constexpr bool device_is_cpu = false;
inline constexpr Elementary elementary{.exp = 4, .exp_argument = 1.25, .reciprocal = 2};
#else
// kernels/cpu/loops/simd_math.h: 1 ulp, at any argument; a division.
inline constexpr bool device_is_cpu = true;
inline constexpr Elementary elementary{.exp = 2, .exp_argument = 0, .reciprocal = 1};
#endif

}  // namespace mxtape::test
