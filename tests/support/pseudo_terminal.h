#pragma once
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include <string>
#include <utility>

namespace mxtape::test {

/// A terminal without a screen: what is written to the file `name()` is read from `master()`.
class PseudoTerminal {
 public:
  PseudoTerminal() : master_(::posix_openpt(O_RDWR | O_NOCTTY)) {
    if (master_ >= 0 && ::grantpt(master_) == 0 && ::unlockpt(master_) == 0) name_ = ::ptsname(master_);
  }
  ~PseudoTerminal() { hang_up(); }
  PseudoTerminal(const PseudoTerminal&) = delete;
  PseudoTerminal& operator=(const PseudoTerminal&) = delete;

  /// False where the system gives none, as in a chroot without /dev/pts.
  explicit operator bool() const { return !name_.empty(); }
  int master() const { return master_; }
  const std::string& name() const { return name_; }
  void hang_up() {
    if (master_ >= 0) ::close(std::exchange(master_, -1));
  }

 private:
  int master_;
  std::string name_;
};

}  // namespace mxtape::test
