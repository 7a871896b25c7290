#pragma once
#include <fmt/format.h>

#include <stdexcept>
#include <string>
#include <utility>

#include "core/text/printable.h"

/// What has a text() or a to_text() is formatted by it. So it can be handed to require(), which formats
/// nothing while all is well.
template <class T>
requires requires(const T& t) { std::string(t.text()); } || requires(const T& t) {
  std::string(to_text(t));
}
struct fmt::formatter<T> : fmt::formatter<std::string> {
  auto format(const T& t, fmt::format_context& context) const {
    if constexpr (requires { t.text(); })
      return fmt::formatter<std::string>::format(t.text(), context);
    else
      return fmt::formatter<std::string>::format(to_text(t), context);
  }
};

namespace mxtape {

/// What the `mxtape` program exits with; documented in docs/exit_codes.md.
enum class ExitCode : int {
  ok = 0,
  internal = 1,      ///< a broken promise inside mxtape: please report it
  usage = 2,         ///< command line or recipe
  data = 3,          ///< a data file or checkpoint is missing, altered or does not fit
  diverged = 4,      ///< a number that is not finite, in the loss or a gradient
  differs = 5,       ///< two files that were compared are not equal
  resource = 6,      ///< disk, memory, permissions, device
  peer = 7,          ///< another process of the same run is gone, or does not answer
  interrupted = 75,  ///< stopped on request, checkpoint written (EX_TEMPFAIL: run again to go on)
};

/// The only exception type the library throws. what() names the place, the value found and the
/// value wanted, in that order, and what to do where that is known.
class Error : public std::runtime_error {
 public:
  Error(ExitCode code, const std::string& text) : std::runtime_error(printable(text)), code_(code) {}
  ExitCode code() const { return code_; }

 private:
  ExitCode code_;
};

template <class... Args>
[[noreturn]] void fail(ExitCode code, fmt::format_string<Args...> text, Args&&... args) {
  throw Error(code, fmt::format(text, std::forward<Args>(args)...));
}

/// Checks what a caller or a file can break. Formats nothing when it holds.
template <class... Args>
void require(bool ok, ExitCode code, fmt::format_string<Args...> text, Args&&... args) {
  if (!ok) [[unlikely]]
    throw Error(code, fmt::format(text, std::forward<Args>(args)...));
}

/// The same for shapes and arguments inside the library, where the caller is our own code.
template <class... Args>
void require(bool ok, fmt::format_string<Args...> text, Args&&... args) {
  if (!ok) [[unlikely]]
    throw Error(ExitCode::internal, fmt::format(text, std::forward<Args>(args)...));
}

}  // namespace mxtape
