#include "tests/support/device.h"

namespace mxtape::test {

const TestedDevice tested_device = TestedDevice::cpu;
std::unique_ptr<Backend> make_device(const BackendOptions& options) { return make_backend("cpu", options); }

}  // namespace mxtape::test
