#pragma once
#include "kernels/make_backend.h"
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

/// One backend for the whole test program: the CPU's, or the device that the program was built to test. So a
/// test of a kernel holds for every device; what it reads from tensors it downloads.
inline Backend& device() {
#if defined(MXTAPE_TEST_LOCKSTEP)
  static const std::unique_ptr<Backend> backend = make_lockstep_backend();
#elif defined(MXTAPE_TEST_CUDA)
  static const std::unique_ptr<Backend> backend = make_backend("cuda");
#else
  static const std::unique_ptr<Backend> backend = make_backend("cpu");
#endif
  return *backend;
}

}  // namespace mxtape::test
