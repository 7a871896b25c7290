#pragma once
#include "kernels/make_backend.h"

namespace mxtape::test {

/// One CPU backend for the whole test program.
inline Backend& cpu() {
  static const std::unique_ptr<Backend> backend = make_backend("cpu");
  return *backend;
}

}  // namespace mxtape::test
