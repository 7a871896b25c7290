#pragma once
#include <sys/types.h>

#include <cerrno>
#include <cstddef>
#include <filesystem>
#include <span>
#include <utility>

namespace mxtape {

/// The result of a system call, which is repeated for as long as a signal interrupts it.
template <class Call>
auto retried(const Call& call) {
  decltype(call()) result;
  do result = call();
  while (result < 0 && errno == EINTR);
  return result;
}

/// A file descriptor. What its calls say of a failure is in errno.
class Descriptor {
 public:
  explicit Descriptor(int number = -1) : number_(number) {}
  /// O_CLOEXEC is added to the flags.
  Descriptor(const std::filesystem::path&, int flags, mode_t mode = 0);
  /// For the way out after another error: close() reports what a network file system reports only then.
  ~Descriptor() { close(); }
  Descriptor(Descriptor&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(number_, other.number_);
    return *this;
  }

  explicit operator bool() const { return number_ >= 0; }
  int number() const { return number_; }
  /// Writes the first bytes, and returns how many. Past the limit of a file's size (ulimit -f) that fails
  /// with EFBIG, to be reported as a full disk is, instead of the SIGXFSZ that ends the process.
  ssize_t write(std::span<const std::byte>) const;
  bool sync() const;
  /// Not repeated after EINTR: Linux has closed the descriptor by then.
  bool close();

 private:
  int number_;
};

}  // namespace mxtape
