#include "tests/support/device.h"
#include "tests/support/lockstep/make_lockstep_backend.h"

namespace mxtape::test {

const TestedDevice tested_device = TestedDevice::lockstep;
std::unique_ptr<Backend> make_device(const BackendOptions& options) { return make_lockstep_backend(options); }

}  // namespace mxtape::test
