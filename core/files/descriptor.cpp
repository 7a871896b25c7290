#include "core/files/descriptor.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <ctime>

namespace mxtape {

Descriptor::Descriptor(const std::filesystem::path& path, int flags, mode_t mode)
    : number_(retried([&] { return ::open(path.c_str(), flags | O_CLOEXEC, mode); })) {}

ssize_t Descriptor::write(std::span<const std::byte> bytes) const {
  constexpr std::size_t most = std::size_t{1} << 30;  // Linux writes at most 2^31 - 4096 bytes at once
  sigset_t size_signal, before;
  sigemptyset(&size_signal);
  sigaddset(&size_signal, SIGXFSZ);
  pthread_sigmask(SIG_BLOCK, &size_signal, &before);
  const ssize_t written =
      retried([&] { return ::write(number_, bytes.data(), std::min(bytes.size(), most)); });
  const int error = errno;
  const timespec now{};
  if (!sigismember(&before, SIGXFSZ))
    while (sigtimedwait(&size_signal, nullptr, &now) > 0) {
    }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  errno = error;
  return written;
}

bool Descriptor::sync() const {
  return retried([&] { return ::fsync(number_); }) == 0;
}

bool Descriptor::close() { return number_ < 0 || ::close(std::exchange(number_, -1)) == 0 || errno == EINTR; }

}  // namespace mxtape
