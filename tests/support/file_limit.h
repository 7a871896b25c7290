#pragma once
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>

#include "core/error.h"

namespace mxtape::test {

/// Runs `action` in a child whose files may not grow past `bytes`: its exit code is that of the Error, 0 for
/// none, 99 for one that does not say `said`; minus the signal if one ended it.
template <class Action>
int with_file_limit(rlim_t bytes, const char* said, const Action& action) {
  const pid_t child = ::fork();
  if (child == 0) {
    const rlimit limit{bytes, bytes};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    int code = 0;
    try {
      action();
    } catch (const Error& error) {
      code = std::strstr(error.what(), said) ? int(error.code()) : 99;
    }
    std::exit(code);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

}  // namespace mxtape::test
