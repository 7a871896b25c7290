#pragma once
#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

namespace mxtape::test {

/// While it lives, this process can have `more` files open than now: what a machine at its limit is like.
class FewHandles {
 public:
  explicit FewHandles(int more) {
    ::getrlimit(RLIMIT_NOFILE, &before_);
    const int lowest = ::open("/dev/null", O_RDONLY);
    ::close(lowest);
    const rlimit few{rlim_t(lowest + more), before_.rlim_max};
    ::setrlimit(RLIMIT_NOFILE, &few);
  }
  ~FewHandles() { ::setrlimit(RLIMIT_NOFILE, &before_); }
  FewHandles(const FewHandles&) = delete;
  FewHandles& operator=(const FewHandles&) = delete;

 private:
  rlimit before_{};
};

}  // namespace mxtape::test
