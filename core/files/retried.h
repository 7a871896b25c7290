#pragma once
#include <cerrno>

namespace mxtape {

/// The result of a system call, which is repeated for as long as a signal interrupts it.
template <class Call>
auto retried(const Call& call) {
  decltype(call()) result;
  do result = call();
  while (result < 0 && errno == EINTR);
  return result;
}

}  // namespace mxtape
